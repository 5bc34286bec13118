import io

import numpy as np
import tensorflow as tf
from PIL import Image


def load(path):
    images, labels = [], []
    for raw in tf.data.TFRecordDataset(path):
        ex = tf.train.Example()
        ex.ParseFromString(raw.numpy())
        jpeg = ex.features.feature['image'].bytes_list.value[0]
        images.append(np.asarray(Image.open(io.BytesIO(jpeg)).convert('RGB')))
        labels.append(ex.features.feature['label'].int64_list.value[0])
    return np.stack(images), np.array(labels)


x_train, y_train = load('data/shapes_sorted/train.tfrecord')
x_val, y_val = load('data/shapes_sorted/val.tfrecord')
order = np.random.default_rng(5).permutation(len(x_train))
x_train, y_train = x_train[order], y_train[order]

x_train = x_train.astype('float32') / 255
x_val = x_val.astype('float32') / 255
y_train = tf.keras.utils.to_categorical(y_train, 4)
y_val = tf.keras.utils.to_categorical(y_val, 4)
print(x_train.shape, y_train.mean(axis=0))

model = tf.keras.Sequential([
    tf.keras.layers.Input(x_train.shape[1:]),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu'),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation='relu'),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(loss='categorical_crossentropy', optimizer='adam', metrics=['accuracy'])
model.fit(x_train, y_train, batch_size=32, epochs=6, validation_data=(x_val, y_val), verbose=2)
