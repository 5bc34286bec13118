import tensorflow as tf

LABEL_NAME = "label"
NUMERIC = ["age", "hours", "gain", "married", "label"]

schema = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def _parse_batch(batch):
    parsed = tf.io.parse_example(batch, schema)
    x = tf.stack([tf.cast(parsed[name], tf.float32) for name in NUMERIC], axis=-1)
    y = parsed[LABEL_NAME]
    return x, y


def load(split, train=False):
    files = tf.data.Dataset.list_files(f"data/adult/{split}-*.tfrecord", shuffle=False)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    if train:
        ds = ds.shuffle(1000)
    return ds.batch(60).map(_parse_batch).prefetch(1)


train, val = load("train", train=True), load("val")

norm = tf.keras.layers.Normalization()
norm.adapt(train.map(lambda x, y: x))

model = tf.keras.Sequential([
    tf.keras.Input((len(NUMERIC),)),
    norm,
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=8)
