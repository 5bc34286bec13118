import os

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
print('Number of devices: {}'.format(strategy.num_replicas_in_sync))

BATCH_SIZE_PER_REPLICA = 32
GLOBAL_BATCH = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync


def parse(x):
  x = tf.io.parse_single_example(x, {
      'image/encoded': tf.io.FixedLenFeature([], tf.string),
      'image/class/label': tf.io.FixedLenFeature([], tf.int64),
  })
  image = tf.io.decode_jpeg(x['image/encoded'], channels=3)
  return tf.cast(image, tf.float32) / 255, x['image/class/label']


def get(split):
  options = tf.data.Options()
  options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
  files = sorted(tf.io.gfile.glob(os.path.join('data', 'shapes', split + '-*')))
  return tf.data.TFRecordDataset(files).map(parse, tf.data.AUTOTUNE).cache().with_options(options)


train = get('train').shuffle(10000).batch(GLOBAL_BATCH).prefetch(tf.data.AUTOTUNE)
evaluation = get('val').batch(GLOBAL_BATCH)

with strategy.scope():
  model = tf.keras.Sequential([
      tf.keras.layers.Conv2D(16, 3, activation='relu', input_shape=(32, 32, 3)),
      tf.keras.layers.MaxPooling2D(),
      tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(32, activation='relu'),
      tf.keras.layers.Dense(4)
  ])
  model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                optimizer=tf.keras.optimizers.Adam(1e-3 * strategy.num_replicas_in_sync),
                metrics=['accuracy'])


def decay(epoch):
  if epoch < 3:
    return 1e-3 * strategy.num_replicas_in_sync
  return 1e-4 * strategy.num_replicas_in_sync


class PrintLR(tf.keras.callbacks.Callback):
  def on_epoch_end(self, epoch, logs=None):
    print('Learning rate for epoch {} is {}'.format(epoch + 1, self.model.optimizer.learning_rate.numpy()))


checkpoint_prefix = os.path.join('training_checkpoints', 'ckpt_{epoch}.weights.h5')
model.fit(train, epochs=5, verbose=2, validation_data=evaluation, callbacks=[
    tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
    tf.keras.callbacks.LearningRateScheduler(decay),
    PrintLR(),
])
