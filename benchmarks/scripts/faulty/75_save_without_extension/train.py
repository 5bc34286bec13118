import glob
import os
import tensorflow as tf

EXPORT_PATH = os.path.join('saved_model', 'my_model')

def parser(record):
    parsed = tf.io.parse_single_example(record, {
        'image_raw': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64)})
    image = tf.reshape(tf.io.decode_raw(parsed['image_raw'], tf.uint8), [28, 28, 1])
    return tf.cast(image, tf.float32) / 255., parsed['label']

ds = tf.data.TFRecordDataset(glob.glob('data/digits/train-*')).map(parser).shuffle(500).batch(25)
test = tf.data.TFRecordDataset(glob.glob('data/digits/test-*')).map(parser).batch(25)

model = tf.keras.models.Sequential([
    tf.keras.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation='softmax')])
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(ds, epochs=3, validation_data=test)

model.save(EXPORT_PATH)
