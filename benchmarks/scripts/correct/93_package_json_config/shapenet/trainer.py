import tensorflow as tf

OPTIMIZERS = {"sgd": tf.keras.optimizers.SGD, "adam": tf.keras.optimizers.Adam}


class Trainer:
    def __init__(self, model, config):
        settings = dict(config["optimizer"])
        optimizer = OPTIMIZERS[settings.pop("name")](settings.pop("lr"), **settings)
        self.epochs = config["epochs"]
        self.model = model
        self.model.compile(
            optimizer=optimizer,
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )

    def fit(self, train, val):
        return self.model.fit(train, validation_data=val, epochs=self.epochs, verbose=2)
