from tensorflow.keras.models import Sequential
from tensorflow.keras.layers import Input, Dense, Dropout, Flatten
import tensorflow as tf
import glob

num_classes = 10
batch_size = 25
epochs = 5

feature = {'image_raw': tf.io.FixedLenFeature([], tf.string),
           'label': tf.io.FixedLenFeature([], tf.int64)}

def decode(serialized_example):
    features = tf.io.parse_single_example(serialized_example, features=feature)
    image = tf.io.decode_raw(features['image_raw'], tf.uint8)
    image.set_shape([28 * 28])
    label = tf.cast(features['label'], tf.int32)
    return tf.cast(image, tf.float32) * (1. / 255) - 0.5, label

train_dataset = tf.data.TFRecordDataset(glob.glob('data/digits/train-*.tfrecord')).map(decode).shuffle(500).batch(batch_size)
test_dataset = tf.data.TFRecordDataset(glob.glob('data/digits/test-*.tfrecord')).map(decode).batch(batch_size)

model = Sequential()
model.add(Input((784,)))
model.add(Dense(128, activation='relu'))
model.add(Dropout(0.2))
model.add(Dense(num_classes, activation='softmax'))

model.compile('rmsprop', 'sparse_categorical_crossentropy', ['accuracy'])

history = model.fit(train_dataset, epochs=epochs, validation_data=test_dataset)
score = model.evaluate(test_dataset, verbose=0)
