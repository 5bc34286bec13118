import tensorflow as tf

from schema import FEATURES, NUMERIC, SCALE


def parse(record):
    row = tf.io.parse_single_example(record, FEATURES)
    x = [tf.cast(row[name], tf.float32) / SCALE[name] for name in NUMERIC]
    x.append(tf.cast(row["married"], tf.float32))
    return tf.stack(x), row["label"]


def load(pattern, training):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse)
    if training:
        ds = ds.shuffle(600)
    return ds.batch(50)


if __name__ == "__main__":
    model = tf.keras.Sequential(
        [
            tf.keras.Input((len(NUMERIC) + 1,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["AUC"])
    model.fit(
        load("data/adult/train-*.tfrecord", True),
        validation_data=load("data/adult/val-*.tfrecord", False),
        epochs=4,
        verbose=2,
    )
