"""Make the files that the other benchmarks read: `python benchmarks/data.py --dir DIR`.

A data set of fewer records holds the first records of the larger one, so that slow rivals can read a smaller file.
"""

import gzip
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import runs
from columns import BATCH, Columns, Feature, Features, Split, cut, split_rows
from rivals.writing import WRITERS

CHUNK = 10 * BATCH
VOCABULARY = 32_000
WORDS = [b"red", b"blue", b"n/a", b"Lisbon", b"Ulaanbaatar", b"mobile", b"desktop", b"v2", b"organic", b"x"]


@dataclass(frozen=True)
class DataSet:
    """`draw` makes the values of one chunk: the same for the same chunk, whatever the number of records."""

    name: str
    records: int
    features: Features
    draw: Callable[[np.random.Generator], Columns]
    compression: str | None = None

    def chunks(self, records: int) -> Iterator[Columns]:
        """Yield the first `records` records, at most CHUNK at a time."""
        seed = zlib.crc32(self.draw.__name__.encode())
        for start in range(0, records, CHUNK):
            columns = self.draw(np.random.default_rng([seed, start]))
            yield cut(columns, 0, min(CHUNK, records - start))


def draw_floats(rng: np.random.Generator) -> Columns:
    return {
        "x": rng.standard_normal((CHUNK, 64), np.float32),
        "label": rng.integers(0, 10, CHUNK),
        "id": split_rows([b"sample-%d" % number for number in rng.integers(0, 10**9, CHUNK)]),
    }


def draw_tokens(rng: np.random.Generator) -> Columns:
    splits = np.zeros(CHUNK + 1, np.int64)
    np.cumsum(rng.integers(16, 497, CHUNK), out=splits[1:])
    # A uniform exponent gives a density of 1 / rank, which is Zipf's law.
    ranks = VOCABULARY ** rng.random(splits[-1])
    return {"tokens": Split(ranks.astype(np.int64) - 1, splits)}


def draw_wide(rng: np.random.Generator) -> Columns:
    return {name: _draw_scalar(rng, feature) for name, feature in WIDE.items()}


def _draw_scalar(rng: np.random.Generator, feature: Feature) -> np.ndarray | Split:
    if feature.dtype == "float32":
        return rng.standard_normal(CHUNK, np.float32)
    if feature.dtype == "int64":
        return rng.integers(0, 10 ** rng.integers(1, 7), CHUNK)
    return split_rows([WORDS[number] for number in rng.integers(0, len(WORDS), CHUNK)])


def draw_images(rng: np.random.Generator) -> Columns:
    splits = np.arange(CHUNK + 1) * 25_000
    return {
        "image": Split(np.frombuffer(rng.bytes(splits[-1]), np.uint8), splits),
        "label": rng.integers(0, 1000, CHUNK),
    }


def _wide() -> Features:
    dtypes = ["float32"] * 90 + ["int64"] * 80 + ["bytes"] * 10
    np.random.default_rng(0).shuffle(dtypes)
    return {f"feature_{number:03d}": Feature(dtype) for number, dtype in enumerate(dtypes)}


FLOATS = {"x": Feature("float32", 64), "label": Feature("int64"), "id": Feature("bytes")}
TOKENS = {"tokens": Feature("int64", None)}
WIDE = _wide()
IMAGES = {"image": Feature("bytes"), "label": Feature("int64")}

DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        DataSet("floats", 1_000_000, FLOATS, draw_floats),
        DataSet("tokens", 200_000, TOKENS, draw_tokens),
        DataSet("wide", 100_000, WIDE, draw_wide),
        DataSet("images", 40_000, IMAGES, draw_images),
        DataSet("floats_gz", 1_000_000, FLOATS, draw_floats, compression="gzip"),
    )
}


def make(data_set: DataSet, records: int, *, directory: Path, writer: str) -> Path:
    """Write the file of the first `records` records, unless it is there."""
    suffix = ".tfrecord.gz" if data_set.compression else ".tfrecord"
    path = directory / f"{data_set.draw.__name__.removeprefix('draw_')}-{records}-{writer}{suffix}"
    if not path.exists():
        runs.say(f"writing {path.name}")
        unfinished = path.with_name(path.name + ".unfinished")
        if data_set.compression:
            plain = make(DATA_SETS["floats"], records, directory=directory, writer=writer)
            _compress(plain, unfinished)
        else:
            WRITERS[writer](unfinished, data_set.chunks(records), data_set.features)
        unfinished.rename(path)
    return path


def _compress(plain: Path, compressed: Path) -> None:
    """Compress with zlib, so that no rival reads a file which its own writer arranged."""
    with plain.open("rb") as source, gzip.open(compressed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def main() -> None:
    options = runs.arguments(__doc__, "dir", "scale", "writer").parse_args()
    with runs.directory(options.dir) as directory:
        for data_set in DATA_SETS.values():
            records = runs.scaled(data_set.records, options.scale)
            path = make(data_set, records, directory=directory, writer=options.writer)
            print(f"{data_set.name:10} {records:>9,} records {path.stat().st_size / 1e6:>8,.1f} MB  {path}")


if __name__ == "__main__":
    main()
