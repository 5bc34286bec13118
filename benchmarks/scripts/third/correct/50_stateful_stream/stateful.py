"""The whole series as one stream through a stateful GRU; the state is reset at the start of every epoch and before validation."""
import numpy as np
import tensorflow as tf

CHUNK = 20
KEYS = ("load", "temperature", "wind")


def read(path):
    spec = {k: tf.io.FixedLenFeature([], tf.float32) for k in KEYS}
    ds = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
    return np.array([[row[k] for k in KEYS] for row in ds.as_numpy_iterator()], np.float32)


train, val = read("data/power/train.tfrecord"), read("data/power/val.tfrecord")
mean, std = train.mean(0), train.std(0)


def chunks(values):
    z = (values - mean) / std
    x, y = z[:-1], z[1:, :1]
    n = len(x) // CHUNK * CHUNK
    ds = tf.data.Dataset.from_tensor_slices((x[:n], y[:n]))
    # in order, not shuffled: the state goes from chunk to chunk
    return ds.batch(CHUNK).batch(1, drop_remainder=True)


gru = tf.keras.layers.GRU(24, return_sequences=True, stateful=True)
inputs = tf.keras.Input(batch_shape=(1, CHUNK, len(KEYS)))
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(gru(inputs)))
opt = tf.keras.optimizers.Adam(5e-3)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(6):
    gru.reset_state()
    losses = [float(step(x, y)) for x, y in chunks(train)]
    gru.reset_state()
    errors = [np.abs(model(x, training=False) - y) for x, y in chunks(val)]
    print(f"epoch {epoch}: train {np.mean(losses):.4f}  val MAE {np.mean(errors) * std[0]:.1f} MW")
