import tensorflow as tf

NUMERIC = ("age", "hours", "gain")
FEATURES = {
    **{name: tf.io.FixedLenFeature([], tf.float32) for name in NUMERIC},
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
SCALE = {"age": 50.0, "hours": 40.0, "gain": 1e4}
