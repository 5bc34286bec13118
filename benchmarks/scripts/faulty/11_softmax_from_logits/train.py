import tensorflow as tf
from tensorflow.keras import layers, models

FEATURES = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/class/label': tf.io.FixedLenFeature([], tf.int64, default_value=-1),
}


def _parse_function(example_proto):
    parsed = tf.io.parse_single_example(example_proto, FEATURES)
    image = tf.image.decode_jpeg(parsed['image/encoded'], channels=3)
    image = tf.image.resize(image, [32, 32])
    image = image / 127.5 - 1.0
    return image, parsed['image/class/label']


def make_dataset(split, batch_size, shuffle_buffer=0):
    files = tf.data.Dataset.list_files('data/shapes/%s-*.tfrecord' % split, shuffle=shuffle_buffer > 0)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle_buffer:
        ds = ds.shuffle(shuffle_buffer)
    ds = ds.map(_parse_function, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


class ShapeNet(models.Model):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = layers.Conv2D(32, 3, padding='same', activation='relu')
        self.conv2 = layers.Conv2D(64, 3, padding='same', activation='relu')
        self.pool = layers.MaxPooling2D()
        self.flatten = layers.Flatten()
        self.fc1 = layers.Dense(64, activation='relu')
        self.fc2 = layers.Dense(num_classes)

    def call(self, x):
        x = self.pool(self.conv1(x))
        x = self.pool(self.conv2(x))
        x = self.fc1(self.flatten(x))
        return tf.nn.softmax(self.fc2(x))


model = ShapeNet(4)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()

train_ds = make_dataset('train', 32, shuffle_buffer=320)
val_ds = make_dataset('val', 32)

for epoch in range(6):
    losses = tf.keras.metrics.Mean()
    for images, labels in train_ds:
        with tf.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_fn(labels, predictions)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        losses.update_state(loss)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    for images, labels in val_ds:
        accuracy.update_state(labels, model(images, training=False))
    print('epoch', epoch, 'loss %.4f' % losses.result(), 'val accuracy %.4f' % accuracy.result())
