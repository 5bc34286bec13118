import tensorflow as tf

from pipeline import NAMES, load


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(lr)
        self.loss = tf.keras.metrics.Mean("loss")
        self.auc = tf.keras.metrics.AUC(name="auc")

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = tf.squeeze(self.model(x, training=True), -1)
            data_term = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
            loss = data_term + sum(self.model.losses)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(data_term, sample_weight=tf.size(y))

    @tf.function
    def check(self, x, y):
        self.auc.update_state(y, tf.sigmoid(tf.squeeze(self.model(x, training=False), -1)))

    def run(self, train, val, epochs):
        for epoch in range(epochs):
            self.loss.reset_state()
            self.auc.reset_state()
            for batch in train:
                self.step(*batch)
            for batch in val:
                self.check(*batch)
            print(f"{epoch}: loss {self.loss.result():.4f} val auc {self.auc.result():.4f}")


def main():
    train, val = load("train", 40), load("val", 150)
    norm = tf.keras.layers.Normalization()
    norm.adapt(train.map(lambda x, y: x))
    model = tf.keras.Sequential(
        [
            tf.keras.Input((len(NAMES),)),
            norm,
            tf.keras.layers.Dense(32, activation="relu", kernel_regularizer="l2"),
            tf.keras.layers.ActivityRegularization(l2=1e-4),
            tf.keras.layers.Dense(1),
        ]
    )
    Trainer(model, 1e-2).run(train, val, 5)


if __name__ == "__main__":
    main()
