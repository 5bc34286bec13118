import tensorflow as tf


def features(record):
  f = tf.io.parse_single_example(record, {
      'audio': tf.io.FixedLenFeature([400], tf.float32),
      'label': tf.io.FixedLenFeature([], tf.int64),
      'speaker': tf.io.FixedLenFeature([], tf.string)})
  # the same speaker always falls on the same side
  bucket = tf.strings.to_hash_bucket_fast(f['speaker'], 4)
  return f['audio'][:, None], f['label'], bucket


def drop_bucket(wave, label, bucket):
  return wave, label


def perturb(wave, label):
  gain = tf.random.uniform((), 0.8, 1.2)
  shift = tf.random.uniform((), 0, 400, tf.int32)
  return tf.roll(wave * gain, shift, axis=0) + tf.random.normal([400, 1], stddev=0.02), label


everything = tf.data.TFRecordDataset(['data/audio/train.tfrecord', 'data/audio/val.tfrecord']).map(features)
train = everything.filter(lambda w, y, b: b != 0).map(drop_bucket).cache()
valid = everything.filter(lambda w, y, b: b == 0).map(drop_bucket)
train = train.shuffle(380).map(perturb, num_parallel_calls=2).batch(32)
valid = valid.batch(64)

model = tf.keras.Sequential([
    tf.keras.Input((400, 1)),
    tf.keras.layers.Conv1D(16, 32, strides=4, activation='relu'),
    tf.keras.layers.Conv1D(24, 8, strides=2, activation='relu'),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(tf.keras.optimizers.Adam(3e-3), 'sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train, validation_data=valid, epochs=6, verbose=2)
