"""Self-training: 150 labelled digits, 350 without labels, the test set is only looked at in the end."""
import numpy as np
import tensorflow as tf


def read(pattern):
    xs, ys = [], []
    for rec in tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))):
        ex = tf.io.parse_single_example(rec, {"image_raw": tf.io.FixedLenFeature([], tf.string),
                                              "label": tf.io.FixedLenFeature([], tf.int64)})
        xs.append(np.frombuffer(ex["image_raw"].numpy(), dtype=np.uint8).reshape(28, 28, 1))
        ys.append(int(ex["label"]))
    return np.array(xs, dtype=np.float32) / 255, np.array(ys)


def make():
    m = tf.keras.Sequential([
        tf.keras.layers.Input((28, 28, 1)),
        tf.keras.layers.RandomTranslation(0.1, 0.1, fill_mode="constant"),
        tf.keras.layers.Conv2D(16, 4, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 4, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])
    m.compile(tf.keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


x, y = read("data/digits/train-*")
x_test, y_test = read("data/digits/test-*")
x_lab, y_lab, x_unl = x[:150], y[:150], x[150:]        # labels of the rest are put away

teacher = make()
teacher.fit(x_lab, y_lab, batch_size=15, epochs=8, verbose=0)

probs = teacher.predict(x_unl, verbose=0)
sure = probs.max(axis=1) > 0.8
print(f"{sure.sum()} of {len(x_unl)} pseudo labels kept")

student = make()
student.fit(
    np.concatenate([x_lab, x_unl[sure]]),
    np.concatenate([y_lab, probs[sure].argmax(axis=1)]),
    sample_weight=np.concatenate([np.ones(len(x_lab)), np.full(sure.sum(), 0.5)]),
    batch_size=25, epochs=8, verbose=2,
)
for name, m in (("teacher", teacher), ("student", student)):
    print(name, "test accuracy %.3f" % m.evaluate(x_test, y_test, verbose=0)[1])
