import tensorflow as tf

def parse(e):
    e = tf.io.parse_single_example(e, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.io.decode_jpeg(e["image"], channels=3)
    im.set_shape((32, 32, 3))
    return tf.cast(im, tf.float32) / 255, e["label"]

def load(fname, bs=32, train=True):
    ds = tf.data.TFRecordDataset(fname)
    ds = ds.map(parse)
    ds = ds.batch(bs)
    if train:
        ds = ds.shuffle(1000)
    ds = ds.prefetch(1)
    return ds

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["acc"])
model.fit(load("data/shapes_sorted/train.tfrecord"), epochs=5, validation_data=load("data/shapes_sorted/val.tfrecord", train=False))
