import os
import tempfile

import tensorflow as tf
from tensorflow.keras import callbacks, layers

workdir = tempfile.mkdtemp(prefix="scenes_")


def parse(r):
    ex = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                        'multi_hot': tf.io.FixedLenFeature([6], tf.int64)})
    img = tf.io.decode_jpeg(ex['image'], channels=3)
    img = tf.ensure_shape(tf.cast(img, tf.float32), [32, 32, 3])
    return img, tf.cast(ex['multi_hot'], tf.float32)


train = tf.data.TFRecordDataset('data/scenes/train.tfrecord').map(parse).cache().shuffle(300).batch(25).prefetch(1)
val = tf.data.TFRecordDataset('data/scenes/val.tfrecord').map(parse).cache().batch(40)

model = tf.keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Rescaling(1 / 255.),
    layers.Conv2D(12, 3, strides=2, activation='relu'),
    layers.Flatten(),
    layers.Dense(32, activation='relu'),
    layers.Dense(6),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(4e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0, name='acc'),
             tf.keras.metrics.AUC(multi_label=True, num_labels=6, from_logits=True, name='auc')],
)
best = os.path.join(workdir, 'best.keras')
cbs = [
    callbacks.ReduceLROnPlateau(monitor='val_loss', factor=0.3, patience=2, min_lr=1e-5, verbose=1),
    callbacks.EarlyStopping(monitor='val_loss', patience=4, restore_best_weights=True),
    callbacks.ModelCheckpoint(best, monitor='val_auc', mode='max', save_best_only=True),
    callbacks.CSVLogger(os.path.join(workdir, 'log.csv')),
    callbacks.TerminateOnNaN(),
]
model.fit(train, validation_data=val, epochs=6, callbacks=cbs, verbose=2)
print('best checkpoint:', tf.keras.models.load_model(best).evaluate(val, verbose=0, return_dict=True))
