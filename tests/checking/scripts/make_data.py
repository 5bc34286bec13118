"""The data that the pipeline scripts beside this file read: `python make_data.py FOLDER`.

photos   JPEG images of 32 x 32, four classes, in random order
digits   raw uint8 images of 28 x 28, ten classes, gzip, in random order
sensors  64 floats, five classes, sorted by label: only a shuffle over all of it mixes them
reviews  text, two classes, in random order
moods    one word, of three
folders  the photos as files, a folder for each class
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bushel

WORDS = "good bad plain fine awful great film plot scene actor long short quiet loud strange warm".split()


def jpeg(pixels: np.ndarray[Any, Any]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def write(path: Path, samples: Iterator[dict[str, Any]], compression: Any = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with bushel.Writer(path, compression=compression) as writer:
        for sample in samples:
            writer.write(sample)


def photos(random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        label = int(random.integers(4))
        pixels = random.integers(0, 64, (32, 32, 3)).astype(np.uint8) + np.uint8(48 * label)
        yield {"image": jpeg(pixels), "image/height": 32, "image/width": 32, "label": label}


def digits(random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        label = int(random.integers(10))
        pixels = random.integers(0, 56, (28, 28)).astype(np.uint8) + np.uint8(20 * label)
        yield {"image_raw": pixels.tobytes(), "label": label}


def sensors(random: np.random.Generator, count: int, first: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        label = 5 * i // count
        x = random.normal(label, 1.0, 64).astype(np.float32)
        yield {"id": f"sensor-{first + i:05d}", "label": label, "x": x}


def reviews(random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        yield {"label": int(random.integers(2)), "text": " ".join(random.choice(WORDS, 12))}


def make(root: Path) -> None:
    """Write all of it below `root`."""
    random = np.random.default_rng(7)
    for shard in range(4):
        write(root / f"photos/train-{shard:05d}-of-00004.tfrecord", photos(random, 100))
    write(root / "photos/val-00000-of-00001.tfrecord", photos(random, 100))
    for shard in range(2):
        write(root / f"digits/train-{shard:05d}-of-00002.tfrecord.gz", digits(random, 300), "gzip")
    write(root / "digits/val-00000-of-00001.tfrecord.gz", digits(random, 200), "gzip")
    write(root / "sensors/train-00000-of-00001.tfrecord", sensors(random, 2000, 0))
    write(root / "sensors/val-00000-of-00001.tfrecord", sensors(random, 500, 2000))
    write(root / "sensors/test-00000-of-00001.tfrecord", sensors(random, 500, 2500))
    moods = ({"mood": mood} for mood in ("good", "bad", "böse") * 20)
    write(root / "moods/train-00000-of-00001.tfrecord", moods)
    write(root / "reviews/train-00000-of-00001.tfrecord", reviews(random, 600))
    write(root / "reviews/val-00000-of-00001.tfrecord", reviews(random, 200))
    for split, count in (("train", 80), ("val", 40)):
        for i, sample in enumerate(photos(random, count)):
            path = root / f"folders/{split}/class{sample['label']}/{i:04d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sample["image"])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
