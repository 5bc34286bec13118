"""Three quantiles of the price at once. The target is in units of 100,000 dollars."""
import tensorflow as tf

QUANTILES = tf.constant([0.1, 0.5, 0.9])
UNIT = 100_000.0


def parse(r):
    f = tf.io.parse_single_example(
        r, {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)}
    )
    return f["x"], f["price"] / UNIT


def pinball(y_true, y_pred):
    error = y_true - y_pred                      # (batch, 1) - (batch, 3)
    return tf.reduce_mean(tf.maximum(QUANTILES * error, (QUANTILES - 1.0) * error), axis=-1)


train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse).cache().shuffle(500).batch(25).prefetch(1)
val = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse).batch(100)

norm = tf.keras.layers.Normalization()
norm.adapt(train.map(lambda x, y: x))

inp = tf.keras.Input((8,))
h = tf.keras.layers.Dense(32, activation="relu")(norm(inp))
# the first output is free, the steps between quantiles are positive: no crossing
base = tf.keras.layers.Dense(1, bias_initializer=tf.keras.initializers.Constant(3.5))(h)
steps = tf.keras.layers.Dense(2, activation="softplus")(h)
out = tf.keras.layers.Lambda(
    lambda t: tf.concat([t[0], t[0] + tf.cumsum(t[1], axis=-1)], axis=-1), output_shape=(3,)
)([base, steps])
model = tf.keras.Model(inp, out)
model.compile(tf.keras.optimizers.Adam(1e-2), loss=pinball)
model.fit(train, validation_data=val, epochs=8, verbose=2)

x, y = next(iter(val))
low, mid, high = tf.unstack(model.predict(x, verbose=0), axis=-1)
inside = tf.reduce_mean(tf.cast((y[:, 0] >= low) & (y[:, 0] <= high), tf.float32))
print(f"80 % interval covers {float(inside):.2f}; median error {float(tf.reduce_mean(abs(mid - y[:, 0])) * UNIT):,.0f}")
