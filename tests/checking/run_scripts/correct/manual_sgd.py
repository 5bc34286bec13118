# data: sensors
"""Linear regression by hand: no Keras at all."""
import tensorflow as tf

def decode(r):
    p = tf.io.parse_example(r, {"x": tf.io.FixedLenFeature([16], tf.float32), "target": tf.io.FixedLenFeature([], tf.float32)})
    return p["x"], p["target"]

data = tf.data.TFRecordDataset(["sensors/train-00000-of-00002.tfrecord", "sensors/train-00001-of-00002.tfrecord"]).batch(64).map(decode)
w = tf.Variable(tf.zeros([16]))
b = tf.Variable(0.0)
for epoch in range(10):
    total = 0.0
    for x, y in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) + b - y) ** 2)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.01 * dw)
        b.assign_sub(0.01 * db)
        total += float(loss)
    print(epoch, total)
