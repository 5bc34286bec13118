import tensorflow as tf

NUM_TAGS = 6


def parse(example_proto):
    feats = tf.io.parse_single_example(
        example_proto,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "labels": tf.io.VarLenFeature(tf.int64),
        },
    )
    img = tf.io.decode_jpeg(feats["image"], channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    img = tf.reshape(img, (32, 32, 3))
    ids = tf.sparse.to_dense(feats["labels"])
    # an image without any tag gives a row of zeros
    hot = tf.reduce_sum(tf.one_hot(ids, NUM_TAGS), axis=0)
    return img, hot


train = tf.data.TFRecordDataset("data/scenes/train.tfrecord").map(parse).cache().shuffle(300).batch(20).prefetch(1)
val = tf.data.TFRecordDataset("data/scenes/val.tfrecord").map(parse).batch(20)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input(shape=(32, 32, 3)),
        tf.keras.layers.Conv2D(16, 5, strides=2, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(NUM_TAGS, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.BinaryCrossentropy(),
    metrics=[
        tf.keras.metrics.BinaryAccuracy(name="bin_acc"),
        tf.keras.metrics.AUC(multi_label=True, num_labels=NUM_TAGS, name="macro_auc"),
        tf.keras.metrics.F1Score(average="micro", threshold=0.5, name="f1"),
    ],
)
model.fit(train, validation_data=val, epochs=6, verbose=2)

pred = model.predict(val, verbose=0) > 0.5
truth = tf.concat([y for _, y in val], axis=0).numpy() > 0.5
print("exact match ratio:", (pred == truth).all(axis=1).mean().round(3))
