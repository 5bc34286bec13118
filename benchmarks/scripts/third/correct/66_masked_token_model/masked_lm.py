"""
Title: Masked token prediction with a custom train_step
Description: 20 % of the tokens are replaced by a mask id; the loss looks at these positions only.
"""
import keras
import tensorflow as tf
from keras import layers

PAD, MASK, VOCAB = 5, 6, 7  # tags are 0..4, so padding and mask get ids of their own


def load(split, batch):
    def parse(record):
        return tf.io.parse_single_example(record, {"tags": tf.io.RaggedFeature(tf.int64)})["tags"]

    ds = tf.data.TFRecordDataset(f"data/tags/{split}.tfrecord").map(parse)
    if split == "train":
        ds = ds.shuffle(300)
    return ds.padded_batch(batch, [20], padding_values=tf.constant(PAD, tf.int64))


class MaskedModel(keras.Model):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def masked_loss(self, ids, training):
        real = tf.not_equal(ids, PAD)
        hidden = tf.logical_and(real, tf.random.uniform(tf.shape(ids)) < 0.2)
        inputs = tf.where(hidden, tf.cast(MASK, ids.dtype), ids)
        loss = keras.losses.sparse_categorical_crossentropy(ids, self.net(inputs, training=training), from_logits=True)
        weight = tf.cast(hidden, loss.dtype)
        count = tf.reduce_sum(weight)
        return tf.math.divide_no_nan(tf.reduce_sum(loss * weight), count), count

    def train_step(self, ids):
        with tf.GradientTape() as tape:
            loss, count = self.masked_loss(ids, training=True)
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.loss_tracker.update_state(loss, sample_weight=count)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, ids):
        loss, count = self.masked_loss(ids, training=False)
        self.loss_tracker.update_state(loss, sample_weight=count)
        return {"loss": self.loss_tracker.result()}


net = keras.Sequential(
    [
        keras.Input((20,), dtype="int64"),
        layers.Embedding(VOCAB, 16),
        layers.Conv1D(32, 3, padding="same", activation="relu"),
        layers.Dense(5),
    ]
)


class Clip(layers.Layer):
    def call(self, x):
        return tf.pad(x, [[0, 0], [0, 0], [0, VOCAB - 5]], constant_values=-1e9)


net.add(Clip())  # ids 5 and 6 are never the answer
model = MaskedModel(net)
model.compile(optimizer=keras.optimizers.Adam(5e-3))
model.fit(load("train", 30), validation_data=load("val", 40), epochs=5, verbose=2)
