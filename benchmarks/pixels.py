"""How fast images become batches, trained steps and small datasets beside what people write, on the same cores.

    python benchmarks/pixels.py [--only png28 fit build ...] [--rounds 3]

Rows of batches: each side parses, decodes and resizes the same records in order, with all cores, into batches of 128.
Before timing, the first batch of both is compared. TensorFlow decodes JPEG with a faster, less exact transform unless
it is told otherwise; it is timed as people write it, and compared with its exact one. `scaled` decodes at half size
(`at_least`), and is compared with the whole. `crop` takes a random part of each image: the usual augmentation for
ImageNet; both sides draw from the same distribution, and the mean colours are compared.

`fit` trains a small CNN for an epoch, fed by each side. `build` resizes a folder of photos to 224 x 224 JPEGs, beside a
pool of processes with OpenCV (`prepare_images.py` has more of it).

Sides take turns, and the best of the rounds counts. The load of the machine is printed: figures of a busy one mean
little.
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
from typing import Any, Literal

import numpy as np
from PIL import Image

import bushel
from bushel import transforms as t

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BATCH = 128
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of random crops


@dataclass(frozen=True)
class Kind:
    """Images of one kind, and what becomes of them."""

    format: str
    height: int
    width: int
    count: int
    channels: int = 3
    to: int | None = None
    how: Literal["exact", "scaled", "crop"] = "exact"
    aim: float = 1.0


KINDS = {
    "png28": Kind("PNG", 28, 28, 20_000, channels=1, aim=4),
    "png32": Kind("PNG", 32, 32, 20_000, aim=4),
    "jpeg32": Kind("JPEG", 32, 32, 20_000, aim=4),
    "png256": Kind("PNG", 256, 256, 1_500, to=224, aim=1.5),
    "jpeg128": Kind("JPEG", 128, 128, 10_000, to=112, aim=2),
    "jpeg256": Kind("JPEG", 256, 256, 5_000, to=224, aim=2),
    "jpeg500": Kind("JPEG", 375, 500, 5_000, to=224, aim=1.4),
    "scaled": Kind("JPEG", 500, 500, 5_000, to=224, how="scaled", aim=2.5),
    "crop": Kind("JPEG", 375, 500, 5_000, to=224, how="crop", aim=1.5),
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


def steps_of(kind: Kind) -> list[Any]:
    if kind.to is None:
        return [t.decode_image("image", kind.channels)]
    size = (kind.to, kind.to)
    if kind.how == "crop":
        crop = t.random_resized_crop("image", *size, area=AREA, ratio=RATIO)
        return [t.decode_image("image", kind.channels), crop, t.cast("image", "float32")]
    decode = t.decode_image("image", kind.channels, at_least=size if kind.how == "scaled" else None)
    return [decode, t.resize("image", *size, dtype="float32")]


def ours(kind: Kind, path: Path) -> Iterator[Any]:
    for batch in bushel.batches(bushel.open(path)["all"], batch_size=BATCH, transforms=steps_of(kind)):
        yield batch["image"]


def parse_of(kind: Kind, *, exact: bool = False) -> Callable[[Any], Any]:
    import tensorflow as tf

    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    decode = tf.io.decode_png if kind.format == "PNG" else tf.io.decode_jpeg
    options = {"dct_method": "INTEGER_ACCURATE"} if exact and kind.format == "JPEG" else {}

    def parse(record: Any) -> Any:
        example = tf.io.parse_single_example(record, spec)
        image = decode(example["image"], channels=kind.channels, **options)
        return (tf.image.resize(image, [kind.to, kind.to]) if kind.to else image), example["label"]

    def parse_and_crop(record: Any) -> Any:
        example = tf.io.parse_single_example(record, spec)
        whole = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(example["image"]), whole, area_range=AREA, aspect_ratio_range=RATIO
        )
        window = tf.concat([begin[:2], size[:2]], axis=0)
        image = tf.image.decode_and_crop_jpeg(example["image"], window, channels=kind.channels)
        return tf.image.resize(image, [kind.to, kind.to]), example["label"]

    return parse_and_crop if kind.how == "crop" else parse


def usual(kind: Kind, path: Path, *, exact: bool = False) -> Any:
    import tensorflow as tf

    records = tf.data.TFRecordDataset(str(path)).map(parse_of(kind, exact=exact), tf.data.AUTOTUNE)
    return records.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def theirs(kind: Kind, path: Path) -> Iterator[Any]:
    for image, _ in usual(kind, path):
        yield image.numpy()


def rate(feed: Callable[[Kind, Path], Iterator[Any]], kind: Kind, path: Path) -> float:
    began = time.perf_counter()
    rows = sum(len(images) for images in feed(kind, path))
    return rows / (time.perf_counter() - began)


def compared(kind: Kind, path: Path) -> str:
    """How far apart the first batches are; an error if that is too far."""
    first = np.asarray(next(ours(kind, path)), float)
    second = np.asarray(next(iter(usual(kind, path, exact=True)))[0], float)
    assert first.shape == second.shape, (first.shape, second.shape)
    if kind.how == "crop":
        apart, most, what = np.abs(first.mean(axis=(0, 1, 2)) - second.mean(axis=(0, 1, 2))).max(), 8, "of mean colours"
    elif kind.how == "scaled":
        apart, most, what = np.abs(first - second).mean(), 4, "on average"
    else:
        apart, most, what = np.abs(first - second).max(), 1, "at most"
    assert apart <= most, f"the two sides are {apart} of 255 apart {what}"
    return f"apart by {apart:.1f} of 255 {what}"


def compare_batches(name: str, folder: Path, rounds: int) -> None:
    kind, path = KINDS[name], folder / f"{name}.tfrecord"
    write(kind, path)
    words = compared(kind, path)
    rates = [(rate(theirs, kind, path), rate(ours, kind, path)) for _ in range(rounds)]
    tell(name, "tf.data", *(max(column) for column in zip(*rates, strict=True)), kind.aim, words)


def compare_fit(name: str, folder: Path, rounds: int) -> None:
    """An epoch of a small CNN on 28 px, fed by the usual pipeline and by bushel."""
    from bushel.tensorflow import dataset

    kind, path = KINDS["png28"], folder / "fit.tfrecord"
    write(kind, path)
    steps = [t.decode_image("image", 1)]
    feeds = [
        usual(kind, path),
        dataset(str(path), batch_size=BATCH, columns=["image", "label"], label="label", transforms=steps),
    ]
    models = [small_cnn() for _ in feeds]
    rates = [[epoch(model, feed, kind.count) for model, feed in zip(models, feeds, strict=True)] for _ in range(rounds)]
    losses = [model.evaluate(feeds[0], verbose=0) for model in models]
    words = "losses " + " and ".join(f"{loss:.3f}" for loss in losses)
    tell(name, "tf.data", *(max(column) for column in zip(*rates, strict=True)), 1.3, words)


def small_cnn() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def epoch(model: Any, feed: Any, records: int) -> float:
    model.fit(feed.take(2), verbose=0)  # traced, and ready
    began = time.perf_counter()
    model.fit(feed, verbose=0)
    return records / (time.perf_counter() - began)


def compare_build(name: str, folder: Path, rounds: int) -> None:
    """A folder of photos to 224 x 224 JPEGs, as processes with OpenCV do it."""
    import prepare_images as prepare

    from bushel.parallel import available_cores

    count, workers = 4_000, available_cores()
    photos = prepare.make_photos(folder / "photos", count)
    best = dict.fromkeys(("pool", "bushel"), 0.0)
    for _ in range(rounds):
        for who in best:
            seconds, _, _ = prepare.measure(who, photos, folder / f"out-{who}", "area", workers)
            best[who] = max(best[who], count / seconds)
    facts = prepare.same_output(folder, count, "bushel", "pool")
    tell(name, "OpenCV", *best.values(), 1.3, f"apart by {facts['pool']['difference']:.1f} of 255 on average")


def tell(name: str, rival: str, theirs: float, ours: float, aim: float, words: str) -> None:
    load = os.getloadavg()[0]
    print(
        f"{name:8} {rival} {theirs:9,.0f}/s  bushel {ours:9,.0f}/s  ratio {ours / theirs:5.2f} (aim {aim:g})  {words}; "
        f"load {load:.1f}",
        flush=True,
    )


ROWS = {**dict.fromkeys(KINDS, compare_batches), "fit": compare_fit, "build": compare_build}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in told.only:
            ROWS[name](name, Path(folder), told.rounds)


if __name__ == "__main__":
    main()
