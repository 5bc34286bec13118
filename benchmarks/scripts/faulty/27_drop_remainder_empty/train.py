import tensorflow as tf

strategy = tf.distribute.get_strategy()
BATCH_SIZE = 32 * strategy.num_replicas_in_sync


def decode(rec):
    r = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(r["image"], channels=3)
    img = tf.reshape(tf.cast(img, tf.float32) / 255.0, [32, 32, 3])
    return img, r["label"]


train_ds = (
    tf.data.TFRecordDataset("data/tiny/train.tfrecord")
    .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    .shuffle(64)
    .batch(BATCH_SIZE, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = tf.data.TFRecordDataset("data/tiny/val.tfrecord").map(decode).batch(8)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.GlobalMaxPooling2D(),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

model.fit(train_ds, epochs=5, validation_data=val_ds)
