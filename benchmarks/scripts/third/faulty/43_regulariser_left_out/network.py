import tensorflow as tf


class IncomeModel(tf.keras.Model):
    def __init__(self, units=32, l2=1e-3):
        super().__init__()
        reg = tf.keras.regularizers.L2(l2)
        self.hidden = tf.keras.layers.Dense(units, activation="relu", kernel_regularizer=reg)
        self.head = tf.keras.layers.Dense(1, kernel_regularizer=reg)
        self.bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.loss_metric = tf.keras.metrics.Mean(name="loss")
        self.auc = tf.keras.metrics.AUC(from_logits=True, name="auc")

    @property
    def metrics(self):
        return [self.loss_metric, self.auc]

    def call(self, x):
        return self.head(self.hidden(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.bce(y, logits)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_metric.update_state(loss)
        self.auc.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        logits = self(x, training=False)
        self.loss_metric.update_state(self.bce(y, logits), sample_weight=tf.shape(x)[0])
        self.auc.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}
