import argparse
import logging

import tensorflow as tf

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("charcnn")

ALPHABET = 128   # ASCII; everything else becomes 127
MAX_CHARS = 160


def encode(record):
    f = tf.io.parse_single_example(record, {
        "text": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    })
    codes = tf.strings.unicode_decode(tf.strings.lower(f["text"]), "UTF-8")
    codes = tf.minimum(codes, ALPHABET - 1)[:MAX_CHARS]
    return codes, f["label"]


def pipeline(path, batch_size, training):
    ds = tf.data.TFRecordDataset(path).map(encode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(5000)
    return ds.padded_batch(batch_size, padded_shapes=([MAX_CHARS], [])).prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", default="/mnt/corpora/reviews/train.tfrecord")
    parser.add_argument("--dev", default="/mnt/corpora/reviews/val.tfrecord")
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    chars = tf.keras.Input((MAX_CHARS,), dtype="int32")
    x = tf.keras.layers.Embedding(ALPHABET, 12)(chars)
    branches = [
        tf.keras.layers.GlobalMaxPooling1D()(tf.keras.layers.Conv1D(24, width, activation="relu")(x))
        for width in (3, 5, 7)
    ]
    x = tf.keras.layers.Concatenate()(branches)
    probabilities = tf.keras.layers.Dense(2, activation="softmax")(x)
    model = tf.keras.Model(chars, probabilities)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(4e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    history = model.fit(
        pipeline(args.train, args.batch_size, True),
        validation_data=pipeline(args.dev, args.batch_size, False),
        epochs=args.epochs,
        verbose=0,
    )
    for epoch, (loss, acc) in enumerate(zip(history.history["loss"], history.history["val_accuracy"])):
        log.info("epoch %d loss %.4f dev accuracy %.3f", epoch + 1, loss, acc)


if __name__ == "__main__":
    main()
