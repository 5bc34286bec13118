"""A dataset into `model.fit`: handwritten digits as PNG images, a small network, and how well it does on a test split.

python examples/keras_fit.py        needs: pip install "bushel[tensorflow]" scikit-learn
"""

import io
import tempfile
from pathlib import Path

import keras
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import bushel
from bushel import Order
from bushel import transforms as t
from bushel.tensorflow import dataset

SCHEMA = bushel.Schema.of(
    image=bushel.Feature(dtype="bytes", encoding="png"),
    label=bushel.Feature(dtype="int64"),
    key=bushel.Feature(dtype="str"),
)
PREPARE = [t.decode_image("image", channels=1), t.normalise("image", 0.0, 255.0)]


def write_digits(folder: Path) -> None:
    digits = load_digits()
    is_test = np.random.default_rng(0).random(len(digits.target)) < 0.2
    for split, rows in (("train", np.flatnonzero(~is_test)), ("test", np.flatnonzero(is_test))):
        with bushel.Writer(folder / f"{split}-00000-of-00001.tfrecord", schema=SCHEMA) as writer:
            for row in rows:
                file = io.BytesIO()
                Image.fromarray((digits.images[row] * 15).astype(np.uint8)).save(file, "PNG")
                writer.write({"image": file.getvalue(), "label": int(digits.target[row]), "key": f"digit {row}"})


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-digits-") as name:
        folder = Path(name)
        write_digits(folder)
        train = dataset(folder, "train", batch_size=64, order=Order(shuffle=True, seed=0), transforms=PREPARE)
        test = dataset(folder, "test", batch_size=64, transforms=PREPARE)
        print(train.element_spec)  # static shapes, and `key` left out: it only describes a record

        keras.utils.set_random_seed(0)
        layers = keras.layers
        model = keras.Sequential(
            [
                keras.Input([8, 8, 1]),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
        model.fit(train, validation_data=test, epochs=5, verbose=2, shuffle=False)
        accuracy = model.evaluate(test, verbose=0)[1]
        print(f"accuracy on the test split: {accuracy:.3f}")
        assert accuracy > 0.95


if __name__ == "__main__":
    main()
