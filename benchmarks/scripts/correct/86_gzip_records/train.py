import os

import tensorflow as tf

data_dir = os.path.join("data", "shapes_gzip")


def get_dataset(filename, shuffle_buffer=0):
    dataset = tf.data.TFRecordDataset(os.path.join(data_dir, filename), compression_type="GZIP", buffer_size=1 << 20)

    def parse(proto):
        sample = tf.io.parse_single_example(proto, {
            "image": tf.io.FixedLenFeature([], tf.string, default_value=""),
            "label": tf.io.FixedLenFeature([], tf.int64, default_value=0),
        })
        image = tf.io.decode_jpeg(sample["image"], channels=3)
        image = tf.image.resize(image, (24, 24))
        return image * (1.0 / 255.0), sample["label"]

    if shuffle_buffer:
        dataset = dataset.shuffle(shuffle_buffer)
    return dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)


train_dataset = get_dataset("train.tfrecord.gz", shuffle_buffer=1000)
val_dataset = get_dataset("val.tfrecord.gz")

model = tf.keras.Sequential([
    tf.keras.Input((24, 24, 3)),
    tf.keras.layers.Conv2D(24, 3, activation="elu"),
    tf.keras.layers.AveragePooling2D(2),
    tf.keras.layers.Conv2D(24, 3, activation="elu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(
    optimizer=tf.keras.optimizers.Adamax(5e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy", tf.keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="top2")],
)
model.fit(train_dataset, epochs=5, validation_data=val_dataset, verbose=2)
