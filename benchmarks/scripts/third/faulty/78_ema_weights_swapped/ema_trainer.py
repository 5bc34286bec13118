"""
Title: Exponential moving average of weights in a custom train_step
Description: Evaluate the averaged copy of the model.
"""
import keras
import tensorflow as tf

DECAY = 0.99


def load(split, batch):
    def parse(record):
        row = tf.io.parse_single_example(
            record,
            {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
        )
        return tf.ensure_shape(tf.io.decode_raw(row["features"], tf.float32), [16]), row["label"]

    ds = tf.data.TFRecordDataset(f"data/vectors/{split}.tfrecord").map(parse)
    if split == "train":
        ds = ds.shuffle(400)
    return ds.batch(batch)


def make_net():
    return keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])


"""
## Model with an averaged twin
"""


class EmaModel(keras.Model):
    def __init__(self, net, twin):
        super().__init__()
        self.net, self.twin = net, twin
        self.twin.set_weights(net.get_weights())
        self.twin.trainable = False

    def call(self, x, training=False):
        return self.net(x, training=training) if training else self.twin(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=logits)
        weights = self.net.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        for slow, fast in zip(self.twin.weights, self.net.weights):
            slow.assign((1 - DECAY) * slow + DECAY * fast)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}


model = EmaModel(make_net(), make_net())
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(load("train", 16), validation_data=load("val", 50), epochs=8, verbose=2)
gap = sum(float(tf.reduce_sum(abs(a - b))) for a, b in zip(model.net.get_weights(), model.twin.get_weights()))
print("distance between the network and its average:", round(gap, 4))
