"""
Title: Customizing fit() with sample weights
Description: A train_step that supports sample_weight and the compiled loss.
"""
import keras
import tensorflow as tf
from keras import layers


class WeightedModel(keras.Model):
    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            # compute_loss also adds the regularization losses of the layers
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred, sample_weight=sample_weight)
        return {m.name: m.result() for m in self.metrics}


"""
## Data: cheap houses count twice
"""


def parse(record):
    row = tf.io.parse_single_example(
        record, {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)}
    )
    y = row["price"] / 100_000.0
    return row["x"], y, tf.where(y[0] < 3.0, 2.0, 1.0)


train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse).shuffle(500).batch(25)
val = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse).map(lambda x, y, w: (x, y)).batch(100)

inputs = keras.Input((8,))
h = layers.Dense(32, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-4))(inputs)
model = WeightedModel(inputs, layers.Dense(1, bias_initializer=keras.initializers.Constant(3.8))(h))
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse", weighted_metrics=["mae"])
model.fit(train, validation_data=val, epochs=6, verbose=2)
