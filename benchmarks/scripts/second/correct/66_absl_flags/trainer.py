"""Trains a small classifier on the adult records."""
from absl import app, flags, logging
import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", "data/adult", "Folder with train-* and val-* files.")
flags.DEFINE_integer("batch_size", 64, "Records per step.", lower_bound=1)
flags.DEFINE_integer("epochs", 5, "Passes over the data.")
flags.DEFINE_float("learning_rate", 5e-3, "Adam's learning rate.")
flags.DEFINE_bool("shuffle", True, "Shuffle the training data.")

_JOBS = ["clerk", "farmer", "sales", "tech"]


def _parse(table):
    def fn(serialized):
        f = tf.io.parse_example(serialized, {
            "age": tf.io.FixedLenFeature([], tf.int64),
            "hours": tf.io.FixedLenFeature([], tf.float32),
            "gain": tf.io.FixedLenFeature([], tf.float32),
            "job": tf.io.FixedLenFeature([], tf.string),
            "married": tf.io.FixedLenFeature([], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        numbers = tf.stack([
            (tf.cast(f["age"], tf.float32) - 40.0) / 10.0,
            (f["hours"] - 40.0) / 10.0,
            tf.math.log1p(f["gain"]) / 10.0,
            tf.cast(f["married"], tf.float32),
        ], axis=-1)
        job = tf.one_hot(table.lookup(f["job"]), len(_JOBS) + 1)   # the last column is for jobs not in the list
        return tf.concat([numbers, job], axis=-1), f["label"]
    return fn


def make_input(pattern, training):
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(_JOBS), tf.range(len(_JOBS), dtype=tf.int64)), 1)
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    if training and FLAGS.shuffle:
        ds = ds.shuffle(1000)
    return ds.batch(FLAGS.batch_size).map(_parse(table)).prefetch(tf.data.AUTOTUNE)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError("Too many arguments.")
    model = tf.keras.Sequential([
        tf.keras.Input((9,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(2, activation="softmax"),     # two classes, integer labels
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(FLAGS.learning_rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
    )
    history = model.fit(
        make_input(f"{FLAGS.data_dir}/train-*", True),
        validation_data=make_input(f"{FLAGS.data_dir}/val-*", False),
        epochs=FLAGS.epochs, verbose=2)
    logging.info("final validation accuracy %.3f", history.history["val_accuracy"][-1])


if __name__ == "__main__":
    app.run(main)
