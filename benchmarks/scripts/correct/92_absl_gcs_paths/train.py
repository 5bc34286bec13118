from absl import app, flags, logging
import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_string('data_dir', 'gs://shapes-experiments/tfrecords/v3', 'Where the shards are.')
flags.DEFINE_integer('batch_size', 32, 'Examples per step.')
flags.DEFINE_integer('epochs', 10, 'Passes over the training data.')
flags.DEFINE_float('learning_rate', 3e-3, 'Peak learning rate.')
flags.DEFINE_list('class_names', ['circle', 'square', 'cross', 'stripes'], 'In the order of the ids.')


def make_parser(training):
  table = tf.lookup.StaticHashTable(
      tf.lookup.KeyValueTensorInitializer(FLAGS.class_names, list(range(len(FLAGS.class_names)))), -1)

  def parser(serialized):
    features = tf.io.parse_single_example(serialized, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/class/text': tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_jpeg(features['image/encoded'], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.ensure_shape(image, [32, 32, 3])
    if training:
      image = tf.image.random_flip_left_right(image)
    return image, table.lookup(features['image/class/text'])

  return parser


def input_fn(split, training):
  pattern = f'{FLAGS.data_dir}/{split}-?????-of-?????.tfrecord'
  files = tf.data.Dataset.list_files(pattern, shuffle=training)
  dataset = files.interleave(
      tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not training)
  if training:
    dataset = dataset.shuffle(16 * FLAGS.batch_size)
  dataset = dataset.map(make_parser(training), num_parallel_calls=tf.data.AUTOTUNE)
  return dataset.batch(FLAGS.batch_size).prefetch(tf.data.AUTOTUNE)


def main(argv):
  del argv
  model = tf.keras.Sequential([
      tf.keras.Input((32, 32, 3)),
      tf.keras.layers.Conv2D(16, 3, activation='relu'),
      tf.keras.layers.MaxPooling2D(),
      tf.keras.layers.Conv2D(32, 3, activation='relu'),
      tf.keras.layers.GlobalAveragePooling2D(),
      tf.keras.layers.Dense(len(FLAGS.class_names)),
  ])
  model.compile(
      optimizer=tf.keras.optimizers.Adam(FLAGS.learning_rate),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      metrics=['accuracy'])
  history = model.fit(input_fn('train', True), validation_data=input_fn('val', False), epochs=FLAGS.epochs, verbose=2)
  logging.info('best validation accuracy: %.3f', max(history.history['val_accuracy']))


if __name__ == '__main__':
  app.run(main)
