"""600 rows fit into one batch: full-batch gradient descent with a large rate, two hundred steps."""
import tensorflow as tf

SPEC = {k: tf.io.FixedLenFeature([], t) for k, t in {
    "age": tf.int64, "hours": tf.float32, "gain": tf.float32, "married": tf.int64, "label": tf.int64}.items()}


def whole(pattern):
    records = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).batch(10_000)
    f = tf.io.parse_example(records.get_single_element(), SPEC)
    x = tf.stack([tf.cast(f["age"], tf.float32), f["hours"], tf.math.log1p(f["gain"]),
                  tf.cast(f["married"], tf.float32)], axis=1)
    return x, tf.cast(f["label"], tf.float32)[:, None]


x, y = whole("data/adult/train-*")
xv, yv = whole("data/adult/val-*")
mean, std = tf.math.reduce_mean(x, 0), tf.math.reduce_std(x, 0)
x, xv = (x - mean) / std, (xv - mean) / std

w = tf.Variable(tf.zeros([4, 1]))
b = tf.Variable(tf.zeros([1]))


@tf.function
def nll(x, y):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x @ w + b))


LR = 1.0       # convex, standardised inputs: this large rate converges
for step in range(201):
    with tf.GradientTape() as tape:
        loss = nll(x, y)
    dw, db = tape.gradient(loss, [w, b])
    w.assign_sub(LR * dw)
    b.assign_sub(LR * db)
    if step % 50 == 0:
        acc = tf.reduce_mean(tf.cast((xv @ w + b > 0) == (yv > 0.5), tf.float32))
        print(f"step {step}: loss {float(loss):.4f} val loss {float(nll(xv, yv)):.4f} val accuracy {float(acc):.3f}")
print("weights", w.numpy().ravel().round(2))
