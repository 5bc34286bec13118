# Faster input pipelines, lesson 2: batch early, parse late
import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE
spec = {
    "image_raw": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(records):
    rows = tf.io.parse_single_example(records, spec)
    images = tf.io.decode_raw(rows["image_raw"], tf.uint8)
    images = tf.reshape(tf.cast(images, tf.float32) / 255.0, [-1, 28, 28, 1])
    return images, rows["label"]


def pipeline(pattern, shuffle):
    files = tf.data.Dataset.list_files(pattern, shuffle=shuffle)
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(500)
    return ds.batch(50).map(parse, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)


train = pipeline("data/digits/train-*.tfrecord", True)
test = pipeline("data/digits/test-*.tfrecord", False)

model = tf.keras.Sequential([
    tf.keras.layers.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=3, verbose=2)
print(model.evaluate(test, verbose=0))
