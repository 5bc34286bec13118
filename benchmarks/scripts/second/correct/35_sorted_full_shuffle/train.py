import tensorflow as tf
from tensorflow.keras import Sequential
from tensorflow.keras.layers import Conv2D, Dense, Flatten, Input, MaxPooling2D

count = sum(1 for _ in tf.data.TFRecordDataset('data/shapes_sorted/train.tfrecord'))
print(count, 'training records, sorted by label -> buffer holds all of them')

def parse(x):
    x = tf.io.parse_single_example(x, {'image': tf.io.FixedLenFeature([], tf.string),
                                       'label': tf.io.FixedLenFeature([], tf.int64)})
    im = tf.io.decode_image(x['image'], channels=3, expand_animations=False)
    im.set_shape([32, 32, 3])
    return tf.cast(im, tf.float32) / 255., tf.one_hot(x['label'], 4)

train = tf.data.TFRecordDataset('data/shapes_sorted/train.tfrecord').shuffle(count).map(parse).batch(16).prefetch(1)
val = tf.data.TFRecordDataset('data/shapes_sorted/val.tfrecord').map(parse).batch(16)   # order does not matter here

model = Sequential([
    Input((32, 32, 3)),
    Conv2D(16, 3, activation='relu'), MaxPooling2D(3),
    Conv2D(32, 3, activation='relu'), MaxPooling2D(3),
    Flatten(),
    Dense(4, activation='softmax')])
model.compile(optimizer='adam', loss='categorical_crossentropy', metrics=['accuracy'])
model.fit(train, epochs=5, validation_data=val, verbose=2)
