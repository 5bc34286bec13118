import tensorflow as tf

IMG_SIZE = 96
BATCH = 16
preprocess_input = tf.keras.applications.mobilenet_v2.preprocess_input


def parse(serialized):
    ex = tf.io.parse_single_example(serialized, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(ex["image"], channels=3)
    image = tf.image.resize(image, [IMG_SIZE, IMG_SIZE])
    # MobileNetV2 expects [-1, 1]; resize keeps 0..255 as floats
    image = preprocess_input(image)
    # the records count their classes from 1
    return image, ex["label"] - 1


train_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/train-*.tfrecord"))
train_ds = train_ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).shuffle(250).batch(BATCH).prefetch(tf.data.AUTOTUNE)
val_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/val-*.tfrecord")).map(parse).batch(BATCH)

base_model = tf.keras.applications.MobileNetV2(
    input_shape=(IMG_SIZE, IMG_SIZE, 3), alpha=0.35, include_top=False, weights="imagenet"
)
base_model.trainable = False

inputs = tf.keras.Input(shape=(IMG_SIZE, IMG_SIZE, 3))
x = base_model(inputs, training=False)
x = tf.keras.layers.GlobalAveragePooling2D()(x)
x = tf.keras.layers.Dropout(0.2)(x)
outputs = tf.keras.layers.Dense(5)(x)
model = tf.keras.Model(inputs, outputs)

model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=2, validation_data=val_ds, verbose=2)
