import numpy as np
import tensorflow as tf

CLASS_NAMES = ["circle", "square", "cross", "stripes"]
AUTOTUNE = tf.data.AUTOTUNE


def parse(p):
    f = tf.io.parse_single_example(p, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(f["image/encoded"], channels=3)
    return tf.reshape(tf.cast(img, tf.float32), (32, 32, 3)) / 255.0, f["image/class/label"]


def load_split(split):
    files = tf.io.gfile.glob(f"data/shapes/{split}-*.tfrecord")
    ds = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=AUTOTUNE)
    return ds.shuffle(500).batch(20).prefetch(AUTOTUNE)


train_ds, val_ds, test_ds = (load_split(s) for s in ("train", "val", "test"))

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=6)

y_true = np.concatenate([y for x, y in test_ds], axis=0)
y_pred = np.argmax(model.predict(test_ds), axis=-1)
print(tf.math.confusion_matrix(y_true, y_pred, num_classes=len(CLASS_NAMES)).numpy())
print("test accuracy:", np.mean(y_true == y_pred), "evaluate:", model.evaluate(test_ds, verbose=0)[1])
