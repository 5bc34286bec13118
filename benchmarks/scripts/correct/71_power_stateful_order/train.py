# A stateful LSTM carries its state from one batch to the next, so this data must NOT be shuffled.
import tensorflow as tf

STEPS = 20


def parse(r):
    d = tf.io.parse_single_example(r, {'load': tf.io.FixedLenFeature([], tf.float32)})
    return d['load'] / 1000.0 - 0.7       # loads are around 700


def chunks(path):
    series = tf.data.TFRecordDataset(path).map(parse)
    x = series.batch(STEPS, drop_remainder=True)
    y = series.skip(1).batch(STEPS, drop_remainder=True)
    pairs = tf.data.Dataset.zip((x, y)).map(lambda a, b: (a[:, None], b[:, None]))
    return pairs.batch(1, drop_remainder=True)     # one stream


train, val = chunks('data/power/train.tfrecord'), chunks('data/power/val.tfrecord')

model = tf.keras.Sequential([
    tf.keras.layers.Input(batch_shape=(1, STEPS, 1)),
    tf.keras.layers.LSTM(16, stateful=True, return_sequences=True),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss='mse')

for epoch in range(5):
    model.layers[0].reset_states()
    history = model.fit(train, epochs=1, shuffle=False, verbose=0)
    # the validation hours follow the training hours: keep the state
    val_loss = model.evaluate(val, verbose=0)
    print(f'epoch {epoch}: loss {history.history["loss"][0]:.5f} val_loss {val_loss:.5f}')
