"""Gzip shards in groups of records: what the groups cost in size, and how fast they are read in order and at random.

`size` is how much larger a shard is than one stream of the same compressor without flushes. Readers parse all features.
tf.data reads in order, in the better of two ways. bushel shuffles over all records. `held` keeps the inflated groups,
as it does for up to 256 MiB. `single` keeps 8 MiB of them, and inflates a group for almost every record. `blocks` is
what it does by default if they cannot be kept and a group has many records. The files are in the page cache.
"""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import runs
from table import settings, share, show

import bushel
from bushel import Order
from bushel.reading import shards
from bushel.reading.order import BufferedShuffle

BATCH, NOT_KEPT = 64, 8 << 20
WORDS = np.array(
    [f"{a}{b}{c}" for a in ("ba", "co", "di") for b in ("lu", "mer", "ni", "s") for c in ("", "ta", "tion")]
)


def numbers(generator: np.random.Generator, size: int) -> bytes:
    """Measurements with two digits."""
    return generator.normal(size=size // 4).astype(np.float32).round(2).tobytes()


def text(generator: np.random.Generator, size: int) -> bytes:
    """Words, frequent and rare ones."""
    chosen = WORDS[np.minimum(generator.zipf(1.4, size // 4), len(WORDS)) - 1]
    return " ".join(chosen)[:size].encode()


def noise(generator: np.random.Generator, size: int) -> bytes:
    """Bytes that no compression makes smaller, as those of JPEGs."""
    return generator.bytes(size)


ROWS: list[tuple[str, Callable[..., bytes], int, int]] = [
    ("numbers", numbers, 100, 400_000),
    ("text", text, 1 << 10, 60_000),
    ("text", text, 16 << 10, 4_000),
    ("as images", noise, 16 << 10, 8_000),
    ("as images", noise, 100 << 10, 1_200),
]


def write(path: Path, make: Callable[..., bytes], size: int, records: int) -> float:
    """Write a shard; how much larger it is than without flushes, in percent."""
    from isal import isal_zlib

    generator, whole = np.random.default_rng(1), isal_zlib.compressobj(2, wbits=31)
    plain = path.with_suffix("")
    with bushel.Writer(path, compression="gzip") as packed, bushel.Writer(plain) as writer:
        for number in range(records):
            sample = {"x": make(generator, size), "number": number}
            packed.write(sample)
            writer.write(sample)
    data = plain.read_bytes()
    length = sum(len(whole.compress(data[at : at + (1 << 20)])) for at in range(0, len(data), 1 << 20))
    return 100 * (path.stat().st_size / (length + len(whole.flush())) - 1)


def with_tensorflow(path: Path, records: int, *, buffered: bool) -> Callable[[], None]:
    """Read and parse a shard with tf.data."""
    import tensorflow as tf

    features = {"x": tf.io.FixedLenFeature([], tf.string), "number": tf.io.FixedLenFeature([], tf.int64)}

    def read() -> None:
        files = tf.data.TFRecordDataset(str(path), "GZIP", buffer_size=(8 << 20) if buffered else None)
        parsed = files.batch(BATCH).map(lambda batch: tf.io.parse_example(batch, features), tf.data.AUTOTUNE)
        assert sum(len(batch["number"]) for batch in parsed.prefetch(4)) == records

    return read


def with_bushel(path: Path, records: int, order: Order, held: int) -> Callable[[], None]:
    """Read and parse a shard with bushel, keeping so many inflated bytes."""

    def batches() -> Iterator[Any]:
        split = bushel.open(path)["all"]
        return bushel.batches(split, batch_size=BATCH, epochs=1, order=order)

    def read() -> None:
        before = shards._HELD_SHUFFLED
        shards._HELD_SHUFFLED = held
        try:
            assert sum(len(batch["number"]) for batch in batches()) == records
        finally:
            shards._HELD_SHUFFLED = before

    return read


def measure(row: tuple[str, Callable[..., bytes], int, int], directory: Path, scale: float, rounds: int) -> dict:
    """Measure one line of the table."""
    name, make, size, records = row
    records = runs.scaled(records, scale)
    path = directory / f"{name.replace(' ', '-')}-{size}.tfrecord.gz"
    larger = write(path, make, size, records)
    runs.warm(path)
    shuffled = Order(shuffle=True)
    calls = {
        "tf.data": with_tensorflow(path, records, buffered=False),
        "tf.data, buffered": with_tensorflow(path, records, buffered=True),
        "in order": with_bushel(path, records, Order(), shards._HELD_SHUFFLED),
        "held": with_bushel(path, records, shuffled, shards._HELD_SHUFFLED),
        "single": with_bushel(path, records, Order(shuffle=True, block=1), NOT_KEPT),
        "blocks": with_bushel(path, records, shuffled, NOT_KEPT),
    }
    seconds, others = runs.race(calls, rounds=rounds)
    rates = {call: records / taken for call, taken in seconds.items()}
    best = max(rates.pop("tf.data"), rates.pop("tf.data, buffered"))
    return {
        "records/s": f"{name}, {size:,} B",
        "size": f"{larger:+.1f} %",
        "tf.data": best,
        **rates,
        "in order/tf.data": rates["in order"] / best,
        "single/in order": rates["single"] / rates["in order"],
        "others": share(others),
    }


def main() -> None:
    options = runs.arguments(__doc__, "dir", "scale", "rounds", "json").parse_args()
    warnings.simplefilter("ignore", BufferedShuffle)
    with runs.directory(options.dir) as directory:
        lines = [measure(row, directory, options.scale, options.rounds) for row in ROWS]
    facts = settings(scale=options.scale, rounds=options.rounds, kept=f"{NOT_KEPT >> 20} MiB")
    show("Gzip shards in groups, records per second", facts, lines, json_path=options.json)


if __name__ == "__main__":
    main()
