import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.applications import EfficientNetB0

IMG = 32
N_CLASSES = 4


def parse(ex):
    d = tf.io.parse_single_example(ex, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64)})
    x = tf.io.decode_jpeg(d['image'], channels=3)
    x = tf.cast(x, tf.float32) / 255.0
    x = tf.image.resize(x, (IMG, IMG))
    return x, tf.one_hot(d['label'], N_CLASSES)


def ds(path, train=False):
    d = tf.data.TFRecordDataset(path)
    if train:
        d = d.shuffle(320)
    return d.map(parse, tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)


base = EfficientNetB0(include_top=False, weights='imagenet', input_shape=(IMG, IMG, 3))
base.trainable = False

inp = layers.Input((IMG, IMG, 3))
x = base(inp, training=False)
x = layers.GlobalAveragePooling2D()(x)
x = layers.BatchNormalization()(x)
x = layers.Dropout(0.2)(x)
out = layers.Dense(N_CLASSES, activation='softmax')(x)
model = tf.keras.Model(inp, out)

model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss='categorical_crossentropy', metrics=['accuracy'])
model.fit(ds('data/shapes_sorted/train.tfrecord', True), epochs=2,
          validation_data=ds('data/shapes_sorted/val.tfrecord'))
