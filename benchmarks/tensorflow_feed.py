"""`for batch in dataset(...)` beside the usual pipeline: python benchmarks/tensorflow_feed.py [--only jpeg|tabular].

The rival parses one record at a time, decodes, and shuffles what it decoded. All run in one process on the same cores,
in turns; the best of each counts. Equal samples are asserted before timing. CPU seconds are printed too: they tell the
same story on a machine that is busy with something else.
"""

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import bushel
from bushel import Order
from bushel import transforms as t
from bushel.tensorflow import dataset

SHARDS = 4
ENGINES = ("native", "graph")
SHUFFLED = Order(shuffle=True, seed=0, buffer=1000)


class Timed(NamedTuple):
    """Seconds of one pass."""

    wall: float
    cpu: float


def write_floats(folder: Path, records: int) -> list[str]:
    generator = np.random.default_rng(0)
    paths = [str(folder / f"floats-{shard}.tfrecord") for shard in range(SHARDS)]
    for shard, path in enumerate(paths):
        rows = np.arange(records // SHARDS) + shard * (records // SHARDS)
        with bushel.Writer(path) as writer:
            writer.write_batch({"x": generator.random((len(rows), 64), np.float32), "label": rows})
    return paths


def photo(generator: np.random.Generator, size: int = 256) -> bytes:
    """Smooth shapes and some noise: about 25 kB at 256 px and quality 85, as photographs have."""
    from PIL import Image

    small = generator.integers(0, 255, (size // 10, size // 10, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC), np.int16)
    image = np.clip(image + generator.integers(-20, 20, image.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=85)
    return file.getvalue()


def write_photos(folder: Path, records: int) -> list[str]:
    generator = np.random.default_rng(0)
    paths = [str(folder / f"photos-{shard}.tfrecord") for shard in range(SHARDS)]
    for path in paths:
        with bushel.Writer(path) as writer:
            for number in range(records // SHARDS):
                writer.write({"image": photo(generator), "label": number})
    return paths


def usual(paths: list[str], batch_size: int, parse: Callable[[Any], Any]) -> Any:
    """What people write."""
    import tensorflow as tf

    records = tf.data.TFRecordDataset(paths)
    return records.map(parse, tf.data.AUTOTUNE).shuffle(1000).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def parse_floats(record: Any) -> Any:
    import tensorflow as tf

    features = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    sample = tf.io.parse_single_example(record, features)
    return sample["x"], sample["label"]


def parse_photo(record: Any) -> Any:
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    sample = tf.io.parse_single_example(record, features)
    return tf.image.resize(tf.io.decode_jpeg(sample["image"], 3), [224, 224]), sample["label"]


def read(made: Any) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in made:
        pass
    return Timed(time.perf_counter() - wall, time.process_time() - cpu)


def compare(title: str, records: int, pipelines: dict[str, Any], rounds: int, aims: dict[str, float]) -> None:
    labels = {name: sorted(int(y) for _, batch in made for y in batch) for name, made in pipelines.items()}
    assert len({tuple(found) for found in labels.values()}) == 1, "the pipelines give different samples"
    best = {name: Timed(float("inf"), float("inf")) for name in pipelines}
    for _ in range(rounds):
        for name, made in pipelines.items():
            best[name] = Timed(*map(min, best[name], read(made)))
    rival = best["usual"]
    print(f"\n{title}", flush=True)
    for name, timed in best.items():
        aim = f"   (aim {aims[name]:g} x)" if name in aims else ""
        print(
            f"  {name:8s} {records / timed.wall:>12,.0f} /s {rival.wall / timed.wall:>7.2f} x"
            f" {records / timed.cpu:>12,.0f} /cpu s {rival.cpu / timed.cpu:>7.2f} x{aim}"
        )


def compare_photos(folder: Path, count: int, rounds: int) -> None:
    paths = write_photos(folder, count)
    steps = [t.decode_image("image"), t.resize("image", 224, 224, dtype="float32")]
    made = {e: dataset(paths, batch_size=32, order=SHUFFLED, transforms=steps, engine=e) for e in ENGINES}
    images = {"usual": usual(paths, 32, parse_photo), **made}
    compare("JPEG 256 -> 224 float32, batches of 32", count, images, rounds, {"native": 1.8, "graph": 1.2})


def compare_floats(folder: Path, count: int, rounds: int) -> None:
    paths = write_floats(folder, count)
    made = {e: dataset(paths, batch_size=1024, order=SHUFFLED, engine=e) for e in ENGINES}
    floats = {"usual": usual(paths, 1024, parse_floats), **made}
    compare("64 floats, batches of 1024", count, floats, rounds, {"native": 30, "graph": 10})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("jpeg", "tabular"), help="one of the two comparisons")
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    given = parser.parse_args()
    import tensorflow as tf

    rounds = 2 if given.quick else 5
    with tempfile.TemporaryDirectory(prefix="bushel-bench-") as name:
        if given.only != "tabular":
            compare_photos(Path(name), 1_200 if given.quick else 4_000, rounds)
        if given.only != "jpeg":
            compare_floats(Path(name), 40_000 if given.quick else 200_000, rounds)
    print(f"\nTensorFlow {tf.__version__}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
