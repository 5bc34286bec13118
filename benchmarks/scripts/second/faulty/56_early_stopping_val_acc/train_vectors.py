import tensorflow as tf
from tensorflow.keras.callbacks import EarlyStopping, TerminateOnNaN
from tensorflow.keras.layers import BatchNormalization, Dense, Dropout, Input
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import Adam

EPOCHS = 5


def _parse(example_proto):
    features = tf.io.parse_single_example(example_proto, {
        'features': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    vec = tf.reshape(tf.io.decode_raw(features['features'], tf.float32), [16])
    return vec, features['label']


def load(name, training=False):
    d = tf.data.TFRecordDataset('data/vectors/' + name).map(_parse)
    if training:
        d = d.shuffle(400)
    return d.batch(40).prefetch(tf.data.AUTOTUNE)


train = load('train.tfrecord', training=True)
valid = load('val.tfrecord')

model = Sequential([
    Input((16,)),
    Dense(64, activation='relu'),
    BatchNormalization(),
    Dropout(0.3),
    Dense(3, activation='softmax'),
])
model.compile(optimizer=Adam(1e-3), loss='sparse_categorical_crossentropy', metrics=['accuracy'])

callbacks = [
    EarlyStopping(monitor='val_acc', patience=3, restore_best_weights=True),
    TerminateOnNaN(),
]
model.fit(train, validation_data=valid, epochs=EPOCHS, callbacks=callbacks, verbose=2)
