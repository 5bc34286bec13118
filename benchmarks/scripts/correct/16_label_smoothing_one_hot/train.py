import re

import numpy as np
import tensorflow as tf
import tensorflow.keras.layers as L

AUTO = tf.data.AUTOTUNE
CLASSES = ['circle', 'square', 'cross', 'stripes']
TRAIN = sorted(tf.io.gfile.glob('data/shapes/train-*.tfrecord'))
VALID = sorted(tf.io.gfile.glob('data/shapes/val-*.tfrecord'))


def read_tfrecord(example):
    fmt = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/text": tf.io.FixedLenFeature([], tf.string),
    }
    example = tf.io.parse_single_example(example, fmt)
    image = tf.cast(tf.image.decode_jpeg(example['image/encoded'], channels=3), tf.float32) / 255.0
    image = tf.reshape(image, [32, 32, 3])
    # one-hot straight from the class name
    one_hot = tf.cast(tf.equal(tf.constant(CLASSES), example['image/class/text']), tf.float32)
    return image, one_hot


def load(files, ordered):
    opts = tf.data.Options()
    opts.deterministic = ordered
    return tf.data.TFRecordDataset(files, num_parallel_reads=AUTO).with_options(opts).map(read_tfrecord, AUTO)


train_ds = load(TRAIN, ordered=False).shuffle(512).batch(32).prefetch(AUTO)
valid_ds = load(VALID, ordered=True).batch(32).prefetch(AUTO)

model = tf.keras.Sequential([
    L.Input((32, 32, 3)),
    L.Conv2D(24, 3, activation='relu'), L.MaxPool2D(),
    L.Conv2D(24, 3, activation='relu'), L.GlobalMaxPool2D(),
    L.Dense(len(CLASSES), activation='softmax', dtype='float32'),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(2e-3),
    loss=tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
    metrics=['categorical_accuracy'])
model.fit(train_ds, validation_data=valid_ds, epochs=6, verbose=2)

probabilities = model.predict(valid_ds.map(lambda img, lbl: img), verbose=0)
truth = np.concatenate([y.numpy() for _, y in valid_ds]).argmax(-1)
print('validation accuracy', (probabilities.argmax(-1) == truth).mean())
