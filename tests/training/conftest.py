"""Small datasets that a model learns in a second or two."""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

import bushel


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers, a category, one that is often missing, and three classes that follow from them."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 4)).astype(np.float32)
    colour = generator.choice(["red", "green", "blue"], 600)
    label = (x[:, 0] > 0).astype(int) + (colour == "red")
    rows = []
    for i in range(600):
        row = {"x": x[i], "colour": str(colour[i]), "label": ["no", "maybe", "yes"][label[i]]}
        rows.append(row | ({"size": float(x[i, 0])} if i % 3 else {}))
    out = tmp_path_factory.mktemp("table") / "data"
    bushel.build(iter(rows), out, split="70/30")
    return out


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Handwritten digits of scikit-learn as a folder of PNG images, built."""
    from PIL import Image

    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    folder = tmp_path_factory.mktemp("digits")
    for number in range(0, 1797, 3):
        place = folder / "images" / str(found.target[number])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((found.images[number] * 15).astype(np.uint8)).save(place / f"{number}.png")
    bushel.build(str(folder / "images"), folder / "data", split="70/15/15", stratify="label")
    return folder / "data"
