"""Records that hold a feature of every kind."""

from pathlib import Path

import numpy as np

import bushel
from bushel import Feature, Schema

EVERY_KIND = Schema.of(
    boxes=Feature(dtype="float32", shape=(None, 4)),
    grid=Feature(dtype="float32", shape=(2, 3)),
    label=Feature(dtype="int64"),
    maybe=Feature(dtype="int64", required=False),
    name=Feature(dtype="str"),
    pair=Feature(dtype="bytes", shape=(2,)),
    raw=Feature(dtype="float64", shape=(3,)),
    tokens=Feature(dtype="int64", shape=(None,)),
    wave=Feature(dtype="int16", shape=(None, 2), encoding="raw"),
    words=Feature(dtype="str", shape=(None,)),
)


def write_every_kind(path: Path, records: int, *, shortest: int) -> Path:
    """Write so many records, whose tokens and waves have `shortest` values or more."""
    generator = np.random.default_rng(0)
    with bushel.Writer(path, schema=EVERY_KIND) as writer:
        for number in range(records):
            sample = {
                "boxes": generator.random((number % 3, 4), np.float32),
                "grid": generator.random((2, 3), np.float32),
                "label": number % 5,
                "name": f"record {number}",
                "pair": [b"a" * number, b"b"],
                "raw": generator.random(3),
                "tokens": generator.integers(1, 99, shortest + number % 7),
                "wave": generator.integers(-9, 9, (shortest + number % 4, 2)).astype(np.int16),
                "words": ["w"] * (number % 3),
            }
            writer.write(sample if number % 2 else {**sample, "maybe": number})
    return path


CLIPS = Schema(
    record="sequence_example",
    features={
        "label": Feature(dtype="int64"),
        "frame": Feature(dtype="uint8", shape=(2, 2), encoding="raw", sequence=True),
        "pose": Feature(dtype="float32", shape=(3,), sequence=True),
        "time": Feature(dtype="int64", sequence=True),
    },
)


def write_clips(path: Path, records: int) -> Path:
    """Write so many SequenceExamples of one to four steps."""
    with bushel.Writer(path, schema=CLIPS) as writer:
        for number in range(records):
            steps = range(1 + number % 4)
            writer.write(
                {
                    "label": number,
                    "frame": [np.full((2, 2), step, np.uint8) for step in steps],
                    "pose": [np.full(3, step + number, np.float32) for step in steps],
                    "time": list(steps),
                }
            )
    return path
