import tensorflow as tf

CONFIG = {
    "train_file": "data/fraud/train.tfrecord",
    "valid_file": "data/fraud/val.tfrecord",
    "batch_size": 32,
    "epochs": 6,
    "lr": 0.005,
    "hidden": [32, 16],
}

FEATURES = {
    "x": tf.io.FixedLenFeature([10], tf.float32),
    "amount": tf.io.FixedLenFeature([1], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.int64),
}


def decode(batch):
    parsed = tf.io.parse_example(batch, FEATURES)
    x = tf.concat([parsed["x"], tf.math.log(parsed["amount"] + 1.0) / 8.0], axis=-1)
    return x, parsed["label"]


def pipeline(config):
    train = tf.data.TFRecordDataset(config["train_file"])
    train = train.shuffle(buffer_size=config["batch_size"])
    train = train.batch(config["batch_size"]).map(decode).prefetch(2)
    valid = tf.data.TFRecordDataset(config["valid_file"]).batch(256).map(decode)
    return train, valid


def network(config):
    inputs = tf.keras.Input((11,))
    h = inputs
    for units in config["hidden"]:
        h = tf.keras.layers.Dense(units, activation="relu")(h)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(h))


train, valid = pipeline(CONFIG)
net = network(CONFIG)
net.compile(
    tf.keras.optimizers.Adam(CONFIG["lr"]),
    loss="binary_crossentropy",
    metrics=[tf.keras.metrics.AUC(curve="PR", name="pr_auc")],
)
net.fit(train, validation_data=valid, epochs=CONFIG["epochs"], verbose=2)
