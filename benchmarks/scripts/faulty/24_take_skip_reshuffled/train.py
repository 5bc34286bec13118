import tensorflow as tf
from tensorflow.keras import layers

DATASET_SIZE = 400
train_size = int(0.8 * DATASET_SIZE)

def parse_tfr(element):
    data = {'image': tf.io.FixedLenFeature([], tf.string), 'label': tf.io.FixedLenFeature([], tf.int64)}
    content = tf.io.parse_single_example(element, data)
    img = tf.io.decode_jpeg(content['image'], channels=3)
    img = tf.reshape(img, shape=[32, 32, 3])
    return tf.cast(img, tf.float32) / 255.0, content['label']

full_dataset = tf.data.TFRecordDataset('data/shapes_pool/all.tfrecord').map(parse_tfr)
full_dataset = full_dataset.shuffle(DATASET_SIZE)
train_dataset = full_dataset.take(train_size)
test_dataset = full_dataset.skip(train_size)

train_dataset = train_dataset.batch(32).prefetch(tf.data.AUTOTUNE)
test_dataset = test_dataset.batch(32).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(32, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(64, activation='relu'),
    layers.Dense(4)
])
model.compile(optimizer='adam', loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
model.fit(train_dataset, epochs=6, validation_data=test_dataset)
