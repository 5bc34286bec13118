import numpy as np
import tensorflow as tf

BATCH_SIZE = 32
EPOCHS = 6


def read_record(example):
    example = tf.io.parse_single_example(example, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'image_name': tf.io.FixedLenFeature([], tf.string),
        'target': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.image.decode_png(example['image'], channels=3)
    image = tf.reshape(tf.cast(image, tf.float32) / 255.0, [32, 32, 3])
    return image, example['target']


train_ds = tf.data.TFRecordDataset('/kaggle/input/melanoma-small/train.tfrecord').map(read_record)
val_ds = tf.data.TFRecordDataset('/kaggle/input/melanoma-small/val.tfrecord').map(read_record).batch(BATCH_SIZE)

labels = np.array([int(y) for _, y in train_ds])
neg, pos = np.bincount(labels)
total = neg + pos
print('Total: {}, positive: {} ({:.2f}%)'.format(total, pos, 100 * pos / total))

# both terms average to half the loss
class_weight = {0: total / (2.0 * neg), 1: total / (2.0 * pos)}

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(12, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(24, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(16, activation='relu'),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(2e-3),
    loss=tf.keras.losses.BinaryCrossentropy(),
    metrics=[tf.keras.metrics.AUC(name='auc'), tf.keras.metrics.Recall(name='recall')])
model.fit(train_ds.cache().shuffle(int(total)).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE),
          epochs=EPOCHS, validation_data=val_ds, class_weight=class_weight, verbose=2)
