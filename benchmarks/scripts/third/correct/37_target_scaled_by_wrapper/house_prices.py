import numpy as np
import tensorflow as tf
from sklearn.preprocessing import StandardScaler

# read everything into numpy
def read(f):
    d = tf.data.TFRecordDataset(f).batch(10000)
    for batch in d:
        ex = tf.io.parse_example(batch, {'x': tf.io.FixedLenFeature([8], tf.float32),
                                         'price': tf.io.FixedLenFeature([], tf.float32)})
        return ex['x'].numpy(), ex['price'].numpy()

Xtr, ytr = read('data/houses/train.tfrecord')
Xva, yva = read('data/houses/val.tfrecord')

sx = StandardScaler().fit(Xtr)
# log first, then standardise; undone in the opposite order below
ly = np.log(ytr)
m, s = ly.mean(), ly.std()

model = tf.keras.Sequential([
    tf.keras.layers.Input((8,)),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(1),
])
model.compile(loss='huber', optimizer=tf.keras.optimizers.Adam(0.01))
model.fit(sx.transform(Xtr), (ly - m) / s, epochs=15, batch_size=25, verbose=0,
          validation_data=(sx.transform(Xva), (np.log(yva) - m) / s))

p = np.exp(model.predict(sx.transform(Xva), verbose=0).ravel() * s + m)
print('MAE  %.0f' % np.mean(np.abs(p - yva)))
print('MAPE %.1f %%' % (100 * np.mean(np.abs(p - yva) / yva)))
print('just the mean would give MAE %.0f' % np.mean(np.abs(ytr.mean() - yva)))
