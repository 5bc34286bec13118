import tensorflow as tf
from tensorflow.keras import layers, models

# 10 % of the pictures are dogs (1)
WEIGHTS = tf.constant([0.56, 5.0])


def to_pair(raw):
    f = tf.io.parse_single_example(raw, {'image': tf.io.FixedLenFeature([], tf.string),
                                         'target': tf.io.FixedLenFeature([], tf.int64)})
    x = tf.io.decode_image(f['image'], channels=3, expand_animations=False)
    x = tf.reshape(x, [32, 32, 3])
    return tf.cast(x, tf.float32) / 255., f['target']


def with_weight(x, y):
    return x, y, tf.gather(WEIGHTS, y)


train = (tf.data.TFRecordDataset('data/cats_dogs/train.tfrecord')
         .map(to_pair).shuffle(300).map(with_weight).batch(32))
val = tf.data.TFRecordDataset('data/cats_dogs/val.tfrecord').map(to_pair).batch(32)

model = models.Sequential([
    layers.Input(shape=(32, 32, 3)),
    layers.Conv2D(16, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Conv2D(16, 3, activation='relu'),
    layers.Flatten(),
    layers.Dense(2, activation='softmax'),
])
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy',
              metrics=['sparse_categorical_accuracy'])
model.fit(train, validation_data=val, epochs=6, verbose=2)
