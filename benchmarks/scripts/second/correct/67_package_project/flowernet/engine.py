import logging

import tensorflow as tf
from tensorflow import keras

log = logging.getLogger(__name__)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = keras.optimizers.Adam(lr)
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss = keras.metrics.Mean()
        self.accuracy = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = self.loss_fn(y, logits)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)
        self.accuracy.update_state(y, logits)

    @tf.function
    def test_step(self, x, y):
        logits = self.model(x, training=False)
        self.loss.update_state(self.loss_fn(y, logits), sample_weight=tf.shape(x)[0])
        self.accuracy.update_state(y, logits)

    def _pass(self, ds, step):
        self.loss.reset_state()
        self.accuracy.reset_state()
        for x, y in ds:
            step(x, y)
        return float(self.loss.result()), float(self.accuracy.result())

    def run(self, train, val, epochs):
        for epoch in range(1, epochs + 1):
            t = self._pass(train, self.train_step)
            v = self._pass(val, self.test_step)
            log.info("epoch %d train loss %.3f acc %.3f | val loss %.3f acc %.3f", epoch, *t, *v)
