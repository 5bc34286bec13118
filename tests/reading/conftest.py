"""Small datasets whose records say which they are."""

from pathlib import Path

import numpy as np
import pytest

import bushel

RECORDS = 103


def write_numbered(folder: Path, *, records: int = RECORDS, shards: int = 4, suffix: str = "") -> Path:
    """Records 0, 1, ... over some shards: `number`, a dense `x`, ragged `tokens`, `text`, and a `label`."""
    folder.mkdir(exist_ok=True)
    compression = "gzip" if suffix == ".gz" else None
    for shard, numbers in enumerate(np.array_split(np.arange(records), shards)):
        path = folder / f"train-{shard:05d}-of-{shards:05d}.tfrecord{suffix}"
        with bushel.Writer(path, compression=compression) as writer:
            for number in numbers.tolist():
                writer.write(
                    {
                        "number": number,
                        "x": np.arange(number, number + 8, dtype=np.float32),
                        "tokens": list(range(number % 7 + 1)),
                        "text": f"record {number}",
                        "label": number % 5,
                    }
                )
    return folder


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    return write_numbered(tmp_path / "data")


def flip(path: Path, *, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))
