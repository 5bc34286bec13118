"""Batches of bushel beside the best tf.data pipeline for the same work: python benchmarks/batches.py [--quick].

Both run in one process on the same cores, in turns; the best of each counts. Equal output is asserted before timing.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import bushel
from bushel import Order, Pad
from bushel import transforms as t

Make = Callable[[], Iterable[Any]]

BATCH = 256
SHARDS = 4


def write_floats(folder: Path, records: int) -> list[str]:
    generator = np.random.default_rng(0)
    paths = [str(folder / f"floats-{shard}.tfrecord") for shard in range(SHARDS)]
    for shard, path in enumerate(paths):
        count = records // SHARDS
        with bushel.Writer(path) as writer:
            x = generator.normal(size=(count, 64)).astype(np.float32)
            writer.write_batch({"x": x, "label": np.arange(count) + shard * count})
    return paths


def write_tokens(folder: Path, records: int) -> list[str]:
    generator = np.random.default_rng(1)
    paths = [str(folder / f"tokens-{shard}.tfrecord") for shard in range(SHARDS)]
    for path in paths:
        lengths = generator.integers(16, 256, records // SHARDS)
        rows = [generator.integers(0, 32_000, length) for length in lengths]
        with bushel.Writer(path) as writer:
            writer.write_batch({"tokens": bushel.Ragged.of(rows, np.int64), "label": lengths})
    return paths


def photo(generator: np.random.Generator, size: int) -> bytes:
    """Smooth shapes and some noise: about 25 kB at 256 px and quality 85, as photographs have."""
    import io

    from PIL import Image

    small = generator.integers(0, 255, (size // 10, size // 10, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC), np.int16)
    image = np.clip(image + generator.integers(-20, 20, image.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=85)
    return file.getvalue()


def write_photos(folder: Path, records: int, size: int) -> list[str]:
    generator = np.random.default_rng(2)
    photos = [photo(generator, size) for _ in range(32)]
    paths = [str(folder / f"photos-{size}-{shard}.tfrecord") for shard in range(SHARDS)]
    for path in paths:
        with bushel.Writer(path) as writer:
            for number in range(records // SHARDS):
                writer.write({"image": photos[number % 32], "label": number})
    return paths


def tf_floats(paths: list[str], buffer: int = 0) -> Iterable[Any]:
    import tensorflow as tf

    features = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    data = tf.data.TFRecordDataset(paths, num_parallel_reads=tf.data.AUTOTUNE if buffer else None)
    data = data.shuffle(buffer) if buffer else data
    parsed = data.batch(BATCH).map(lambda r: tf.io.parse_example(r, features), num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def tf_tokens(paths: list[str]) -> Iterable[Any]:
    import tensorflow as tf

    features = {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(records: Any) -> Any:
        parsed = tf.io.parse_example(records, features)
        return {**parsed, "tokens": parsed["tokens"].to_tensor()}

    data = tf.data.TFRecordDataset(paths).batch(BATCH).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def tf_photos(paths: list[str], *, dct: str = "") -> Iterable[Any]:
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record: Any) -> Any:
        parsed = tf.io.parse_single_example(record, features)
        image = tf.image.resize(tf.io.decode_jpeg(parsed["image"], channels=3, dct_method=dct), [224, 224])
        return {"image": image, "label": parsed["label"]}

    data = tf.data.TFRecordDataset(paths).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(64).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def our_batches(paths: list[str], *, shuffle: bool = False, **settings: Any) -> Iterable[Any]:
    order = Order(shuffle=shuffle, seed=1)
    return bushel.batches(bushel.open(paths)["all"], order=order, **{"batch_size": BATCH, **settings})


def our_photos(paths: list[str], *, scaled: bool = False) -> Iterable[Any]:
    decode = t.decode_image("image", at_least=(224, 224) if scaled else None)
    return our_batches(paths, batch_size=64, transforms=[decode, t.resize("image", 224, 224, dtype="float32")])


class Timed(NamedTuple):
    """Records a second, and microseconds of processor time a record, which other programs disturb less."""

    rate: float
    cpu: float


def measure(make: Make, records: int) -> Timed:
    begin, cpu = time.perf_counter(), time.process_time()
    seen = sum(len(batch["label"]) for batch in make())
    assert seen == records, (seen, records)
    return Timed(records / (time.perf_counter() - begin), (time.process_time() - cpu) / records * 1e6)


def compare(name: str, ours: Make, theirs: Make, *, turns: int = 3) -> None:
    records = sum(len(batch["label"]) for batch in ours())
    mine, rival = [], []
    for _ in range(turns):
        mine.append(measure(ours, records))
        rival.append(measure(theirs, records))
    rates = [max(timed.rate for timed in each) for each in (mine, rival)]
    cpus = [min(timed.cpu for timed in each) for each in (mine, rival)]
    print(f"{name:<36} {rates[0]:>11,.0f} /s   tf.data {rates[1]:>9,.0f} /s   {rates[0] / rates[1]:6.2f}x", end="")
    print(f"   (processor: {cpus[0]:.2f} us, tf.data {cpus[1]:.2f} us, {cpus[1] / cpus[0]:.2f}x)")


def assert_equal(ours: Iterable[Any], theirs: Iterable[Any], *, tolerance: float = 0.0) -> None:
    for a, b in zip(ours, theirs, strict=True):
        for name in ("x", "tokens", "image", "label"):
            if name in b:
                np.testing.assert_allclose(a[name], b[name], atol=tolerance, rtol=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--only", default="", help="only benchmarks whose name holds this")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floats = write_floats(folder, 1_000_000 // scale)
        tokens = write_tokens(folder, 100_000 // scale)
        small = write_photos(folder, 4_000 // scale, 256)
        large = write_photos(folder, 1_000 // scale, 500)
        padded = {"layout": [Pad("tokens")]}
        assert_equal(our_batches(floats), tf_floats(floats))
        assert_equal(our_batches(tokens, **padded), tf_tokens(tokens))
        # tf.data decodes with the fast, inexact transform by default, and is timed so.
        assert_equal(our_photos(small), tf_photos(small, dct="INTEGER_ACCURATE"), tolerance=2.0)
        print(f"{os.cpu_count()} cores; records a second; batches of {BATCH} (photos: 64)")
        runs: list[tuple[str, Make, Make]] = [
            ("64 floats, in order", lambda: our_batches(floats), lambda: tf_floats(floats)),
            ("64 floats, shuffled", lambda: our_batches(floats, shuffle=True), lambda: tf_floats(floats, 10_000)),
            ("ragged tokens, padded", lambda: our_batches(tokens, **padded), lambda: tf_tokens(tokens)),
            ("256 px JPEG to 224 float32", lambda: our_photos(small), lambda: tf_photos(small)),
            ("500 px JPEG to 224 float32, exact", lambda: our_photos(large), lambda: tf_photos(large)),
            ("500 px JPEG to 224 float32, scaled", lambda: our_photos(large, scaled=True), lambda: tf_photos(large)),
        ]
        for title, ours, theirs in runs:
            if arguments.only in title:
                compare(title, ours, theirs)


if __name__ == "__main__":
    main()
