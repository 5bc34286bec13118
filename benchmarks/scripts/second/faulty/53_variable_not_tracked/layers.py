import keras
import tensorflow as tf


class AttentionPooling(keras.layers.Layer):
    """Learned weighted mean over time; honours the incoming mask."""

    def __init__(self, units=16, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True

    def build(self, input_shape):
        dim = input_shape[-1]
        init = tf.random_normal_initializer(stddev=0.1)
        self.w = tf.Variable(init([dim, self.units]), trainable=True, name="w")
        self.v = tf.Variable(init([self.units, 1]), trainable=True, name="v")
        super().build(input_shape)

    def call(self, x, mask=None):
        scores = tf.matmul(tf.tanh(tf.matmul(x, self.w)), self.v)
        if mask is not None:
            scores += (1.0 - tf.cast(mask, tf.float32)[..., None]) * -1e9
        alpha = tf.nn.softmax(scores, axis=1)
        return tf.reduce_sum(alpha * x, axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])
