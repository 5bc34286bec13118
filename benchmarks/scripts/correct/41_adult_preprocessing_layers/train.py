import tensorflow as tf
from tensorflow.keras import layers

SPEC = {
    'age': tf.io.FixedLenFeature([1], tf.int64),
    'hours': tf.io.FixedLenFeature([1], tf.float32),
    'gain': tf.io.FixedLenFeature([1], tf.float32),
    'job': tf.io.FixedLenFeature([1], tf.string),
    'married': tf.io.FixedLenFeature([1], tf.int64),
    'label': tf.io.FixedLenFeature([1], tf.int64),
}


def parse(examples):
  row = tf.io.parse_example(examples, SPEC)
  label = row.pop('label')
  row['age'] = tf.cast(row['age'], tf.float32)
  row['gain'] = tf.math.log1p(row['gain'])      # 0..100000, mostly 0
  row['married'] = tf.cast(row['married'], tf.float32)
  return row, label


def make(split, shuffle):
  ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f'data/adult/{split}-*.tfrecord'))
  if shuffle:
    ds = ds.shuffle(600)
  return ds.batch(50).map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


train, val = make('train', True), make('val', False)

inputs, encoded = {}, []
for name in ['age', 'hours', 'gain']:
  inputs[name] = tf.keras.Input((1,), name=name)
  norm = layers.Normalization(axis=None)
  norm.adapt(train.map(lambda x, y, n=name: x[n]))
  encoded.append(norm(inputs[name]))

inputs['job'] = tf.keras.Input((1,), name='job', dtype='string')
lookup = layers.StringLookup(output_mode='one_hot')
lookup.adapt(train.map(lambda x, y: x['job']))
encoded.append(lookup(inputs['job']))

inputs['married'] = tf.keras.Input((1,), name='married')
encoded.append(inputs['married'])

x = layers.Concatenate()(encoded)
x = layers.Dense(32, activation='relu')(x)
x = layers.Dropout(0.3)(x)
output = layers.Dense(1)(x)
model = tf.keras.Model(inputs, output)
model.compile('adam', tf.keras.losses.BinaryCrossentropy(from_logits=True),
              metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)])
model.fit(train, epochs=6, validation_data=val, verbose=2)
