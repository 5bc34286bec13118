"""Somebody else's TFRecords into `model.fit`: nothing is known of them but where they are.

python examples/foreign_tfrecords.py        needs: pip install "bushel[tensorflow]" scikit-learn
"""

import tempfile
from pathlib import Path

import keras
import tensorflow as tf
from sklearn.datasets import load_digits

import bushel
from bushel import Order
from bushel import transforms as t
from bushel.tensorflow import dataset, parse_spec


def write_as_others_do(folder: Path) -> None:
    """Compressed shards with the feature names of the usual image tools, written without bushel."""
    digits = load_digits()
    for shard in range(4):
        path = folder / f"digits-{shard:05}-of-00004.tfrecord"
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for image, label in list(zip(digits.images, digits.target, strict=True))[shard::4]:
                jpeg = tf.io.encode_jpeg((image[..., None] * 15).astype("uint8"), quality=98).numpy()
                features = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                    "image/height": tf.train.Feature(int64_list=tf.train.Int64List(value=[8])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-foreign-") as name:
        write_as_others_do(Path(name))
        files = f"{name}/digits-*"

        theirs = bushel.open(files)["all"]
        print(f"{len(theirs)} records")
        for feature in theirs.schema:
            print(f"  {feature}: {theirs.schema[feature].describe()}")
        print("to parse them by hand:", parse_spec(theirs.schema, ["image/class/label"]))

        digits = dataset(
            files,
            batch_size=64,
            label="image/class/label",
            order=Order(shuffle=True, seed=0),
            transforms=[t.decode_image("image/encoded", channels=1), t.normalise("image/encoded", 0.0, 255.0)],
        )
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([8, 8, 1]), keras.layers.Flatten(), keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
        accuracy = model.fit(digits, epochs=5, verbose=2, shuffle=False).history["accuracy"][-1]
        assert accuracy > 0.9


if __name__ == "__main__":
    main()
