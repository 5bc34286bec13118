import tensorflow as tf
from tensorflow.keras import layers

BASE_LR = 0.01


def parse(r):
    r = tf.io.parse_single_example(r, {
        'text': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    return r['text'], r['label']


train = tf.data.TFRecordDataset('data/reviews/train.tfrecord').map(parse)
val = tf.data.TFRecordDataset('data/reviews/val.tfrecord').map(parse)

# bag of words, vocabulary from the training set only
vec = layers.TextVectorization(max_tokens=300, output_mode='multi_hot')
vec.adapt(train.map(lambda t, y: t).batch(100))


def schedule(epoch, lr):
    # lr is ignored on purpose, the rate is computed from the base
    if epoch < 2:
        return BASE_LR * (epoch + 1) / 2
    return BASE_LR * 0.9 ** (epoch - 1)


model = tf.keras.Sequential([
    layers.Input((), dtype='string'),
    vec,
    layers.Dense(16, activation='relu', kernel_regularizer='l2'),
    layers.Dense(2, activation='softmax'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1.0), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train.shuffle(400).batch(20), validation_data=val.batch(50), epochs=6, verbose=2,
          callbacks=[tf.keras.callbacks.LearningRateScheduler(schedule)])
print(model.predict(tf.constant(['a superb and moving story', 'dull plot and awful music']), verbose=0).round(2))
