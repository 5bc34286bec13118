import math
import os

import tensorflow as tf

DATA = os.environ.get('SHAPES_DIR', '/kaggle/input/shapes-tfrecords')
BATCH_SIZE = 24
EPOCHS = 5


def count_records(files):
    return sum(1 for _ in tf.data.TFRecordDataset(files))


train_fns = tf.io.gfile.glob(f'{DATA}/train-*.tfrecord')
valid_fns = tf.io.gfile.glob(f'{DATA}/val-*.tfrecord')
N_TRAIN, N_VALID = count_records(train_fns), count_records(valid_fns)
print(f'{N_TRAIN} training and {N_VALID} validation images')


def read(example):
    example = tf.io.parse_single_example(example, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/class/label': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.image.decode_jpeg(example['image/encoded'], channels=3)
    image = tf.reshape(tf.cast(image, tf.float32) / 255., [32, 32, 3])
    return image, tf.one_hot(example['image/class/label'], 4)


def flip(image, label):
    return tf.image.random_flip_left_right(image), label


def get_training_dataset():
    opt = tf.data.Options()
    opt.deterministic = False   # order does not matter, we shuffle anyway
    ds = tf.data.TFRecordDataset(train_fns, num_parallel_reads=tf.data.AUTOTUNE).with_options(opt)
    ds = ds.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(flip, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(2048).repeat()   # the training dataset must repeat for several epochs
    return ds.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


def get_validation_dataset():
    ds = tf.data.TFRecordDataset(valid_fns).map(read).batch(BATCH_SIZE)
    return ds.cache().prefetch(tf.data.AUTOTUNE)


model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.SeparableConv2D(32, 3, activation='relu'),
    tf.keras.layers.BatchNormalization(momentum=0.8),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.SeparableConv2D(48, 3, activation='relu'),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(4e-3), loss='categorical_crossentropy',
              metrics=['categorical_accuracy'])

model.fit(get_training_dataset(),
          steps_per_epoch=math.ceil(N_TRAIN / BATCH_SIZE),
          epochs=EPOCHS,
          validation_data=get_validation_dataset(),
          verbose=2)
