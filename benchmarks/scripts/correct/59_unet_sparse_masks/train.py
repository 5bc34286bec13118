import tensorflow as tf
from tensorflow.keras import layers

OUTPUT_CLASSES = 3
BATCH_SIZE = 16


def load(record):
    d = tf.io.parse_single_example(record, {
        'image': tf.io.FixedLenFeature([], tf.string), 'mask': tf.io.FixedLenFeature([], tf.string)})
    image = tf.cast(tf.io.decode_png(d['image'], channels=3), tf.float32) / 255.0
    mask = tf.io.decode_png(d['mask'], channels=1)        # class ids, not to be scaled
    return tf.ensure_shape(image, [48, 48, 3]), tf.ensure_shape(mask, [48, 48, 1])


def flip_both(image, mask):
    both = tf.concat([image, tf.cast(mask, tf.float32)], axis=-1)
    both = tf.image.random_flip_up_down(tf.image.random_flip_left_right(both))
    return both[..., :3], tf.cast(tf.round(both[..., 3:]), tf.int32)


train = (tf.data.TFRecordDataset('data/cells/train.tfrecord').map(load).cache().shuffle(120)
         .map(flip_both).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE))
val = tf.data.TFRecordDataset('data/cells/val.tfrecord').map(load).batch(BATCH_SIZE)


def block(x, filters):
    x = layers.Conv2D(filters, 3, padding='same', activation='relu')(x)
    return layers.Conv2D(filters, 3, padding='same', activation='relu')(x)


inputs = layers.Input((48, 48, 3))
d1 = block(inputs, 8)
d2 = block(layers.MaxPooling2D()(d1), 16)
b = block(layers.MaxPooling2D()(d2), 24)
u2 = block(layers.Concatenate()([layers.UpSampling2D()(b), d2]), 16)
u1 = block(layers.Concatenate()([layers.UpSampling2D()(u2), d1]), 8)
outputs = layers.Conv2D(OUTPUT_CLASSES, 1)(u1)          # one logit per class and pixel
model = tf.keras.Model(inputs, outputs)
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=['accuracy', tf.keras.metrics.MeanIoU(OUTPUT_CLASSES, sparse_y_pred=False, name='miou')])
model.fit(train, epochs=10, validation_data=val, verbose=2)
