import json
import os
import tempfile

import tensorflow as tf

DATA = os.environ.get("AIP_DATA", "gs://acme-ml/tokens")
MODEL_DIR = os.environ.get("AIP_MODEL_DIR", tempfile.mkdtemp())
HP = json.loads(os.environ.get("HP", '{"lr": 0.005, "dim": 16, "batch": 25, "epochs": 4}'))


def parse(batch):
    ex = tf.io.parse_example(batch, {
        "tokens": tf.io.RaggedFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return ex["tokens"].to_tensor(shape=[None, 40]), ex["label"]


def input_fn(split, training):
    files = tf.io.gfile.glob(f"{DATA}/{split}-*.tfrecord")
    ds = tf.data.Dataset.from_tensor_slices(files)
    if training:
        ds = ds.shuffle(len(files))
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=tf.data.AUTOTUNE, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(10_000)
    return ds.batch(HP["batch"]).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def main():
    model = tf.keras.Sequential([
        tf.keras.Input((40,), dtype="int64"),
        tf.keras.layers.Embedding(2000, HP["dim"], mask_zero=True),
        tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(HP["dim"])),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile(tf.keras.optimizers.Adam(HP["lr"]), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(input_fn("train", True), validation_data=input_fn("val", False), epochs=HP["epochs"], verbose=2)
    model.save(os.path.join(MODEL_DIR, "model.keras"))


if __name__ == "__main__":
    main()
