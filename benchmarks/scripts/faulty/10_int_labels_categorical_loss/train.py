import tensorflow as tf
from tensorflow import keras

SAMPLES = 400
LABELS = 4

desc = {'audio': tf.io.FixedLenFeature([SAMPLES], tf.float32),
        'label': tf.io.FixedLenFeature([], tf.int64)}

def parse(x):
    x = tf.io.parse_single_example(x, desc)
    return tf.expand_dims(x['audio'], -1), x['label']

train = tf.data.TFRecordDataset('data/audio/train.tfrecord').map(parse).shuffle(300).batch(30)
test = tf.data.TFRecordDataset('data/audio/val.tfrecord').map(parse).batch(30)

model = keras.models.Sequential([
    keras.layers.Input(shape=(SAMPLES, 1)),
    keras.layers.Conv1D(8, 9, strides=2, activation='relu'),
    keras.layers.Conv1D(16, 9, strides=2, activation='relu'),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(LABELS, activation='softmax'),
])
opt = keras.optimizers.Adam(learning_rate=0.003)
model.compile(loss='categorical_crossentropy', optimizer=opt, metrics=['accuracy'])
model.fit(train, epochs=10, validation_data=test)
