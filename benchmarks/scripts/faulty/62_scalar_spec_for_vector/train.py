import tensorflow as tf

N_FEATURES = 10


def get_feature_spec():
    return {
        "x": tf.io.FixedLenFeature([], tf.float32),
        "amount": tf.io.FixedLenFeature([], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }


def read(path, batch_size, training):
    spec = get_feature_spec()

    def _map(rec):
        e = tf.io.parse_single_example(rec, spec)
        amount = tf.math.log1p(e["amount"])[tf.newaxis]
        return tf.concat([tf.reshape(e["x"], [N_FEATURES]), amount], axis=0), e["label"]

    ds = tf.data.TFRecordDataset(path).map(_map)
    if training:
        ds = ds.shuffle(600)
    return ds.batch(batch_size)


def main():
    model = tf.keras.Sequential([
        tf.keras.Input((N_FEATURES + 1,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile("adam", "binary_crossentropy", metrics=[tf.keras.metrics.Recall()])
    model.fit(read("data/fraud/train.tfrecord", 40, True), validation_data=read("data/fraud/val.tfrecord", 40, False),
              epochs=5, class_weight={0: 1.0, 1: 10.0})


if __name__ == "__main__":
    main()
