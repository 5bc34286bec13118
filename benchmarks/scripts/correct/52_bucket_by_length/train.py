import tensorflow as tf

BOUNDARIES = [12, 20, 30]
BATCH_SIZES = [48, 32, 24, 16]      # one more than boundaries


def parse(example):
  features = tf.io.parse_single_example(example, features={
      'tokens': tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
      'label': tf.io.FixedLenFeature([], tf.int64)})
  return features['tokens'], features['label']


def input_fn(pattern, is_training):
  dataset = tf.data.Dataset.list_files(pattern, shuffle=is_training)
  dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=2)
  dataset = dataset.map(parse)
  if is_training:
    dataset = dataset.shuffle(512)
  dataset = dataset.bucket_by_sequence_length(
      element_length_func=lambda tokens, label: tf.shape(tokens)[0],
      bucket_boundaries=BOUNDARIES,
      bucket_batch_sizes=BATCH_SIZES,
      padded_shapes=([None], []),
      padding_values=(tf.constant(0, tf.int64), tf.constant(0, tf.int64)))
  if is_training:
    # batches come out by length; mix their order too
    dataset = dataset.shuffle(16)
  return dataset.prefetch(tf.data.AUTOTUNE)


ids = tf.keras.Input(shape=(None,), dtype=tf.int64)
x = tf.keras.layers.Embedding(2000, 32, mask_zero=True)(ids)
x = tf.keras.layers.GlobalAveragePooling1D()(x)     # the mask keeps padding out of the mean
x = tf.keras.layers.Dense(32, activation='relu')(x)
logits = tf.keras.layers.Dense(4)(x)
model = tf.keras.Model(ids, logits)
model.compile(optimizer=tf.keras.optimizers.Adam(5e-3),
              loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'])
model.fit(input_fn('data/tokens/train-*.tfrecord', True),
          validation_data=input_fn('data/tokens/val-*.tfrecord', False),
          epochs=8, verbose=2)
