import datetime
import os

import tensorflow as tf
from tensorflow.keras.callbacks import (BackupAndRestore, CSVLogger, Callback, EarlyStopping, ModelCheckpoint,
                                        ReduceLROnPlateau, TensorBoard, TerminateOnNaN)

RUN = os.path.join('runs', datetime.datetime.now().strftime('%Y%m%d-%H%M%S'))
os.makedirs(RUN, exist_ok=True)


def decode(rec):
    ex = tf.io.parse_single_example(rec, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/height': tf.io.FixedLenFeature([], tf.int64),
        'image/width': tf.io.FixedLenFeature([], tf.int64),
        'image/class/label': tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.decode_jpeg(ex['image/encoded'], channels=3)
    img = tf.reshape(img, tf.stack([ex['image/height'], ex['image/width'], 3]))
    img = tf.ensure_shape(img, [32, 32, 3])
    return tf.cast(img, tf.float32) / 255., ex['image/class/label']


def ds(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f'data/shapes/{split}-*.tfrecord'))).map(decode)


train = ds('train').cache().shuffle(320).batch(32).prefetch(1)
val = ds('val').batch(40).cache()


class PerClassRecall(Callback):
    """Prints the recall of each class on the validation data."""

    def on_epoch_end(self, epoch, logs=None):
        y = tf.concat([labels for _, labels in val], 0)
        p = tf.argmax(self.model.predict(val, verbose=0), -1)
        matrix = tf.math.confusion_matrix(y, p, num_classes=4)
        print('  recall', (tf.linalg.diag_part(matrix) / tf.reduce_sum(matrix, 1)).numpy().round(2))


model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation='relu'),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
best = os.path.join(RUN, 'best.keras')
model.fit(train, validation_data=val, epochs=6, verbose=2, callbacks=[
    ReduceLROnPlateau(monitor='val_loss', factor=0.5, patience=2, min_lr=1e-5),
    EarlyStopping(monitor='val_accuracy', mode='max', patience=4),
    ModelCheckpoint(best, monitor='val_accuracy', mode='max', save_best_only=True),
    CSVLogger(os.path.join(RUN, 'log.csv')),
    TensorBoard(log_dir=RUN, histogram_freq=0),
    BackupAndRestore(os.path.join(RUN, 'backup')),
    TerminateOnNaN(),
    PerClassRecall(),
])

# the test set is touched once, with the best epoch
model = tf.keras.models.load_model(best)
print('test:', model.evaluate(ds('test').batch(40), verbose=0, return_dict=True))
