import tensorflow as tf

SHAPES = 4
CKPT = "best_model.weights.h5"

keys = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def parse(r):
    r = tf.io.parse_single_example(r, keys)
    im = tf.io.decode_jpeg(r["image/encoded"], channels=3)
    im = tf.image.resize(im, [32, 32]) / 255.0
    return im, r["image/class/label"]


def ds(name):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/shapes/{name}-*"))).map(parse)


model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(SHAPES, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

checkpoint = tf.keras.callbacks.ModelCheckpoint(
    CKPT,
    monitor="val_acc",
    mode="max",
    save_best_only=True,
    save_weights_only=True,
)
model.fit(ds("train").shuffle(320).batch(32), validation_data=ds("val").batch(40), epochs=4,
          callbacks=[checkpoint], verbose=2)

model.load_weights(CKPT)
print("test:", model.evaluate(ds("test").batch(40), verbose=0))
