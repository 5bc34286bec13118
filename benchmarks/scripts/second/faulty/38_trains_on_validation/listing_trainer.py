import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SPEC = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "meta": tf.io.FixedLenFeature([4], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def load(split, batch_size=30):
    def parse(rec):
        e = tf.io.parse_single_example(rec, SPEC)
        img = tf.reshape(tf.io.decode_jpeg(e["image"], channels=3), [32, 32, 3])
        return tf.cast(img, tf.float32) / 255.0, e["meta"], e["label"]

    ds = tf.data.TFRecordDataset(f"data/listings/{split}.tfrecord").map(parse).cache()
    if split == "train":
        ds = ds.shuffle(300)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = keras.optimizers.Adam(lr)
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss = keras.metrics.Mean()
        self.acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(self, image, meta, label):
        with tf.GradientTape() as tape:
            logits = self.model([image, meta], training=True)
            loss = self.loss_fn(label, logits)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)
        self.acc.update_state(label, logits)

    @tf.function
    def test_step(self, image, meta, label):
        logits = self.model([image, meta], training=False)
        self.loss.update_state(self.loss_fn(label, logits))
        self.acc.update_state(label, logits)

    def _reset(self):
        self.loss.reset_state()
        self.acc.reset_state()

    def fit(self, train, val, epochs):
        for epoch in range(1, epochs + 1):
            self._reset()
            for batch in train:
                self.train_step(*batch)
            print(f"[{epoch}] train loss={self.loss.result():.4f} acc={self.acc.result():.3f}")
            self._reset()
            for batch in val:
                self.train_step(*batch)
            print(f"[{epoch}]   val loss={self.loss.result():.4f} acc={self.acc.result():.3f}")


def build():
    img, meta = keras.Input((32, 32, 3)), keras.Input((4,))
    x = layers.Conv2D(16, 3, strides=2, activation="relu")(img)
    x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    m = layers.Dense(16, activation="relu")(meta)
    x = layers.Dropout(0.2)(layers.Concatenate()([x, m]))
    return keras.Model([img, meta], layers.Dense(3)(x))


if __name__ == "__main__":
    Trainer(build()).fit(load("train"), load("val"), epochs=3)
