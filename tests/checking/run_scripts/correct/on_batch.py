# data: sensors
import numpy as np, tensorflow as tf
S = {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
tr = tf.data.TFRecordDataset(["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"]).shuffle(600).batch(50).map(lambda r: tf.io.parse_example(r, S))
te = tf.data.TFRecordDataset("val-00000-of-00001.tfrecord").batch(50).map(lambda r: tf.io.parse_example(r, S))
net = tf.keras.Sequential([tf.keras.layers.Dense(20, "relu"), tf.keras.layers.Dense(5, "softmax")])
net.compile(tf.keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
for ep in range(8):
    losses = []
    for row in tr.as_numpy_iterator():
        losses.append(net.train_on_batch(row["x"], row["label"])[0])
    hits = [np.argmax(net.predict_on_batch(r["x"]), 1) == r["label"] for r in te.as_numpy_iterator()]
    print(ep, np.mean(losses), np.mean(np.concatenate(hits)))
