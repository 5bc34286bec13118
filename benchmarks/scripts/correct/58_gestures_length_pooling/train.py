import tensorflow as tf
from tensorflow.keras import layers


def parse_batch(records):
  context, sequences, lengths = tf.io.parse_sequence_example(
      records,
      context_features={'label': tf.io.FixedLenFeature([], tf.int64)},
      sequence_features={'frames': tf.io.FixedLenSequenceFeature([6], tf.float32)})
  return {'frames': sequences['frames'], 'length': lengths['frames']}, context['label']


train = tf.data.TFRecordDataset('data/gestures/train.tfrecord').shuffle(300).batch(30).map(parse_batch).prefetch(2)
val = tf.data.TFRecordDataset('data/gestures/val.tfrecord').batch(40).map(parse_batch)


class MaskedMean(layers.Layer):
  """Mean over the first `length` steps."""

  def call(self, inputs):
    x, length = inputs
    mask = tf.sequence_mask(length, tf.shape(x)[1], dtype=x.dtype)[..., None]
    return tf.reduce_sum(x * mask, axis=1) / tf.reduce_sum(mask, axis=1)


frames = tf.keras.Input((None, 6), name='frames')
length = tf.keras.Input((), name='length', dtype='int64')
x = layers.Conv1D(32, 5, padding='causal', activation='relu')(frames)
x = layers.Conv1D(32, 5, padding='causal', activation='relu')(x)
x = MaskedMean()([x, length])
model = tf.keras.Model({'frames': frames, 'length': length}, layers.Dense(5)(x))
model.compile(tf.keras.optimizers.Adam(5e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'])
model.fit(train, validation_data=val, epochs=6, verbose=2)
