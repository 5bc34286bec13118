import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument('--tfrecords', default='data/digits')
parser.add_argument('--temperature', type=float, default=0.2)
parser.add_argument('--pretrain-epochs', type=int, default=4)
parser.add_argument('--probe-epochs', type=int, default=8)
parser.add_argument('--batch-size', type=int, default=100)
FLAGS = parser.parse_args()


def parse(serialized):
  fields = tf.io.parse_single_example(serialized, {
      'image_raw': tf.io.FixedLenFeature([], tf.string),
      'label': tf.io.FixedLenFeature([], tf.int64)})
  image = tf.reshape(tf.io.decode_raw(fields['image_raw'], tf.uint8), (28, 28, 1))
  return tf.cast(image, tf.float32) / 255., fields['label']


def random_view(image):
  image = tf.image.random_crop(tf.pad(image, [[3, 3], [3, 3], [0, 0]]), (28, 28, 1))
  image = tf.image.random_brightness(image, 0.2)
  return image + tf.random.normal(tf.shape(image), stddev=0.05)


def two_views(image, label):
  del label  # self-supervised
  return random_view(image), random_view(image)


def records(split):
  return tf.data.TFRecordDataset(tf.io.gfile.glob(f'{FLAGS.tfrecords}/{split}-*')).map(parse).cache()


pretrain = (records('train').shuffle(500).map(two_views, tf.data.AUTOTUNE)
            .batch(FLAGS.batch_size, drop_remainder=True).prefetch(1))

encoder = tf.keras.Sequential([
    tf.keras.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu'),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation='relu'),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(64, activation='relu'),
])
projector = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(32)])
optimizer = tf.keras.optimizers.Adam(1e-3)


def nt_xent(z1, z2):
  z = tf.math.l2_normalize(tf.concat([z1, z2], 0), axis=1)
  n = tf.shape(z1)[0]
  similarity = tf.matmul(z, z, transpose_b=True) / FLAGS.temperature
  similarity -= 1e9 * tf.eye(2 * n)               # not with itself
  positives = tf.concat([tf.range(n, 2 * n), tf.range(n)], 0)
  return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=positives, logits=similarity))


@tf.function
def step(v1, v2):
  weights = encoder.trainable_variables + projector.trainable_variables
  with tf.GradientTape() as tape:
    loss = nt_xent(projector(encoder(v1, training=True)), projector(encoder(v2, training=True)))
  optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
  return loss


for epoch in range(FLAGS.pretrain_epochs):
  losses = [float(step(a, b)) for a, b in pretrain]
  print(f'pretrain {epoch}: loss {sum(losses) / len(losses):.4f}')

encoder.trainable = False
probe = tf.keras.Sequential([encoder, tf.keras.layers.Dense(10)])
probe.compile(tf.keras.optimizers.Adam(2e-2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
probe.fit(records('train').shuffle(500).batch(50), validation_data=records('test').batch(50),
          epochs=FLAGS.probe_epochs, verbose=2)
