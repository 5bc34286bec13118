from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers


@dataclass
class Params:
    vocab_size: int = 400
    num_tags: int = 5
    embed_dim: int = 24
    units: int = 16
    batch_size: int = 30
    epochs: int = 2
    data_dir: str = "data/tags"


def make_dataset(p: Params, split: str):
    spec = {
        "tokens": tf.io.RaggedFeature(tf.int64),
        "tags": tf.io.RaggedFeature(tf.int64),
    }

    def parse(r):
        f = tf.io.parse_single_example(r, spec)
        return f["tokens"], f["tags"], tf.ones_like(f["tags"], dtype=tf.float32)

    ds = tf.data.TFRecordDataset(f"{p.data_dir}/{split}.tfrecord").map(parse)
    if split == "train":
        ds = ds.shuffle(300)
    # third component: weight 1 for real tokens, 0 for padding
    return ds.padded_batch(p.batch_size, padded_shapes=([20], [20], [20])).prefetch(1)


def build(p: Params):
    return keras.Sequential([
        keras.Input((20,), dtype="int32"),
        layers.Embedding(p.vocab_size, p.embed_dim),
        layers.Conv1D(p.units, 3, padding="same", activation="relu"),
        layers.Dense(p.num_tags, activation="softmax"),
    ])


def main():
    p = Params()
    model = build(p)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss="sparse_categorical_crossentropy",
        weighted_metrics=["accuracy"],
    )
    model.fit(make_dataset(p, "train"), validation_data=make_dataset(p, "val"), epochs=p.epochs)


if __name__ == "__main__":
    main()
