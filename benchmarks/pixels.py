"""How fast images become batches beside the tf.data pipeline that people write, on the same cores, in turns.

    python benchmarks/pixels.py [--only png28 ...] [--rounds 3]

Each side parses, decodes and resizes the same records in order, with all cores, into batches of 128. The best of the
rounds counts. Before timing, the first batch of both is compared. TensorFlow decodes JPEG with a faster, less exact
transform unless it is told otherwise; it is timed as people write it, and compared with its exact one.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import bushel
from bushel import transforms as t

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@dataclass(frozen=True)
class Kind:
    """Images of one kind, and what becomes of them."""

    format: str
    height: int
    width: int
    count: int
    channels: int = 3
    to: int | None = None


KINDS = {
    "png28": Kind("PNG", 28, 28, 20_000, channels=1),
    "png32": Kind("PNG", 32, 32, 20_000),
    "jpeg32": Kind("JPEG", 32, 32, 20_000),
    "png256": Kind("PNG", 256, 256, 1_500, to=224),
    "jpeg128": Kind("JPEG", 128, 128, 10_000, to=112),
    "jpeg256": Kind("JPEG", 256, 256, 5_000, to=224),
    "jpeg500": Kind("JPEG", 375, 500, 2_500, to=224),
}


def write(kind: Kind, path: Path) -> None:
    rng = np.random.default_rng(0)
    encoded = []
    for _ in range(64):
        coarse = rng.integers(0, 255, (max(2, kind.height // 16), max(2, kind.width // 16), 3)).astype(np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((kind.width, kind.height), Image.Resampling.BICUBIC))
        pixels = np.clip(smooth.astype(int) + rng.integers(-6, 6, smooth.shape), 0, 255).astype(np.uint8)
        image = Image.fromarray(pixels[..., 0] if kind.channels == 1 else pixels)
        data = io.BytesIO()
        image.save(data, kind.format, **({"quality": 90} if kind.format == "JPEG" else {}))
        encoded.append(data.getvalue())
    with bushel.Writer(path) as writer:
        images = [encoded[number % 64] for number in range(kind.count)]
        writer.write_batch({"image": images, "label": np.arange(kind.count) % 10})


def ours(kind: Kind, path: Path) -> Iterator[Any]:
    chain = [t.decode_image("image", kind.channels)]
    if kind.to:
        chain.append(t.resize("image", kind.to, kind.to, dtype="float32"))
    for batch in bushel.batches(bushel.open(path)["all"], batch_size=128, transforms=chain):
        yield batch["image"]


def theirs(kind: Kind, path: Path, *, exact: bool = False) -> Iterator[Any]:
    import tensorflow as tf

    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    decode = tf.io.decode_png if kind.format == "PNG" else tf.io.decode_jpeg

    def parse(record: Any) -> Any:
        example = tf.io.parse_single_example(record, spec)
        options = {"dct_method": "INTEGER_ACCURATE"} if exact and kind.format == "JPEG" else {}
        image = decode(example["image"], channels=kind.channels, **options)
        return (tf.image.resize(image, [kind.to, kind.to]) if kind.to else image), example["label"]

    records = tf.data.TFRecordDataset(str(path))
    for image, _ in records.map(parse, tf.data.AUTOTUNE).batch(128).prefetch(tf.data.AUTOTUNE):
        yield image.numpy()


def rate(feed: Callable[[Kind, Path], Iterator[Any]], kind: Kind, path: Path) -> float:
    began = time.perf_counter()
    rows = sum(len(images) for images in feed(kind, path))
    return rows / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in told.only:
            kind, path = KINDS[name], Path(folder) / f"{name}.tfrecord"
            write(kind, path)
            first, second = (
                np.asarray(next(feed), float) for feed in (ours(kind, path), theirs(kind, path, exact=True))
            )
            difference = np.abs(first - second).max()
            rates = [(rate(theirs, kind, path), rate(ours, kind, path)) for _ in range(told.rounds)]
            tf_rate, our_rate = (max(column) for column in zip(*rates, strict=True))
            print(
                f"{name:8} tf.data {tf_rate:9,.0f}/s  bushel {our_rate:9,.0f}/s  ratio {our_rate / tf_rate:5.2f}  "
                f"largest difference {difference:.1f} of 255",
                flush=True,
            )


if __name__ == "__main__":
    main()
