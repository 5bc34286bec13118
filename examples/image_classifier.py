"""A folder of images, one sub-folder a class, to a trained classifier; without a line of training code.

python examples/image_classifier.py        needs: pip install "bushel[tensorflow]" scikit-learn
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import bushel
from bushel.training import Options


def save_images(folder: Path) -> None:
    digits = load_digits()
    for number in range(0, len(digits.target), 2):
        place = folder / f"digit {digits.target[number]}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[number] * 15).astype(np.uint8)).save(place / f"{number}.png")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-images-") as name:
        folder = Path(name)
        save_images(folder / "images")
        bushel.build(str(folder / "images"), folder / "data", split="70/15/15", stratify="label")
        options = Options(epochs=8, batch_size=16, augment="rotate=10")
        trained = bushel.train(folder / "data", options, out=folder / "run")
        print(trained.verdict.summary)
        print(sorted(path.name for path in trained.folder.iterdir()))
        for prediction in bushel.predict(folder / "run", str(folder / "images" / "digit 3" / "3*.png")):
            print(Path(prediction.name).name, prediction.label, prediction.probability)
        assert trained.metrics["test"]["accuracy"] > 0.85


if __name__ == "__main__":
    main()
