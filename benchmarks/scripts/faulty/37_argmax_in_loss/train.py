import tensorflow as tf
from tensorflow import keras


def custom_loss(y_true, y_pred):
    pred_class = tf.argmax(y_pred, axis=-1)
    diff = tf.cast(tf.reshape(y_true, [-1]), tf.float32) - tf.cast(pred_class, tf.float32)
    return tf.reduce_mean(tf.square(diff))


def parse_record(record):
    parsed = tf.io.parse_single_example(record, {
        'features': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    values = tf.io.decode_raw(parsed['features'], tf.float32)
    values.set_shape([16])
    return values, parsed['label']


train = tf.data.TFRecordDataset('data/vectors/train.tfrecord').map(parse_record).shuffle(400).batch(32)
val = tf.data.TFRecordDataset('data/vectors/val.tfrecord').map(parse_record).batch(32)

model = keras.Sequential([
    keras.Input((16,)),
    keras.layers.Dense(24, activation='relu'),
    keras.layers.Dense(3, activation='softmax'),
])
model.compile(optimizer='adam', loss=custom_loss, metrics=['sparse_categorical_accuracy'])
model.fit(train, validation_data=val, epochs=10)
