import tensorflow as tf

UNIT = 100_000.0

spec = {'x': tf.io.FixedLenFeature([8], tf.float32), 'price': tf.io.FixedLenFeature([1], tf.float32)}


def parse(batch):
    row = tf.io.parse_example(batch, spec)
    return row['x'], row['price'] / UNIT


train = tf.data.TFRecordDataset('data/houses/train.tfrecord').shuffle(500).batch(25).map(parse)
val = tf.data.TFRecordDataset('data/houses/val.tfrecord').batch(100).map(parse)

model = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(1),
])


def mae_dollars(y_true, y_pred):
    return tf.reduce_mean(tf.abs(y_true - y_pred), axis=-1) * UNIT


model.compile(loss='mse', optimizer=tf.keras.optimizers.RMSprop(1e-2), metrics=[mae_dollars])
model.fit(train, validation_data=val, epochs=12, verbose=2)
for x, y in val.take(1):
    print('first predictions:', (model.predict(x[:3], verbose=0)[:, 0] * UNIT).round(), 'true:', y[:3, 0].numpy() * UNIT)
