import tensorflow as tf
from tensorflow.keras import layers


def parse_shape(record):
    p = tf.io.parse_single_example(record, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/class/label': tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.image.decode_jpeg(p['image/encoded'], channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    return tf.image.resize(img, (32, 32)), tf.cast(p['image/class/label'], tf.int32)


def make_ds(split, batch, shuffle):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f'data/shapes/{split}-*')))
    ds = ds.shuffle(320) if shuffle else ds
    return ds.map(parse_shape, num_parallel_calls=tf.data.AUTOTUNE).batch(batch).prefetch(1)


def build():
    return tf.keras.Sequential([
        layers.Input((32, 32, 3)),
        layers.Conv2D(16, 3, use_bias=False),
        layers.BatchNormalization(momentum=0.8),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, use_bias=False),
        layers.BatchNormalization(momentum=0.8),
        layers.ReLU(),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.3),
        layers.Dense(4),
    ])


class Trainer(object):
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(lr)
        self.criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss_avg = tf.keras.metrics.Mean()
        self.acc = tf.keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=False)
            loss = self.criterion(y, logits)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss_avg.update_state(loss)

    @tf.function
    def eval_step(self, x, y):
        self.acc.update_state(y, self.model(x, training=False))

    def fit(self, train, val, epochs):
        for e in range(epochs):
            self.loss_avg.reset_state()
            self.acc.reset_state()
            for x, y in train:
                self.train_step(x, y)
            for x, y in val:
                self.eval_step(x, y)
            print('epoch', e, 'loss', float(self.loss_avg.result()), 'val acc', float(self.acc.result()))


trainer = Trainer(build())
trainer.fit(make_ds('train', 32, True), make_ds('val', 32, False), 5)
