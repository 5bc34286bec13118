import random

import tensorflow as tf

random.seed(0)
GZ = dict(compression_type='GZIP')


def parse(r):
    f = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                       'label': tf.io.FixedLenFeature([], tf.int64)})
    img = tf.cast(tf.io.decode_jpeg(f['image'], channels=3), tf.float32) / 255.
    return tf.ensure_shape(img, [32, 32, 3]), f['label']


def augment(img, y):
    if random.random() < 0.5:
        img = tf.image.flip_left_right(img)
    img = tf.image.rot90(img, k=random.randint(0, 3))
    img = tf.image.adjust_brightness(img, random.uniform(-0.1, 0.1))
    return img, y


train = (tf.data.TFRecordDataset('data/shapes_gzip/train.tfrecord.gz', **GZ)
         .map(parse).cache().shuffle(320)
         .map(augment)
         .batch(32).prefetch(2))
val = tf.data.TFRecordDataset('data/shapes_gzip/val.tfrecord.gz', **GZ).map(parse).batch(80)

inp = tf.keras.Input((32, 32, 3))
h = inp
for width in (16, 32):
    h = tf.keras.layers.Conv2D(width, 3, padding='same', use_bias=False)(h)
    h = tf.keras.layers.BatchNormalization()(h)
    h = tf.keras.layers.ReLU()(h)
    h = tf.keras.layers.MaxPooling2D()(h)
h = tf.keras.layers.GlobalAveragePooling2D()(h)
model = tf.keras.Model(inp, tf.keras.layers.Dense(4)(h))
model.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'])
model.fit(train, epochs=6, validation_data=val, verbose=2)
