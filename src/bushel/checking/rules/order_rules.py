"""ORD: the order of records, judged by what a shuffle buffer makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import MISSING, Data, SplitFacts
from bushel.checking.report.findings import Finding, Location
from bushel.checking.rules.label_rules import is_classification
from bushel.checking.rules.registry import rule

__all__ = ["Mixing", "measure_mixing", "smallest_buffer"]

MIXED = 0.9  # of the classes that a batch in random order would hold
BAD = 0.6
DEFAULT_BATCH = 32
SEED = 1


@dataclass(frozen=True)
class Mixing:
    """What a batch holds after a shuffle buffer, and what it would hold in random order."""

    buffer: int
    batch: int
    classes: float
    single: float
    expected: float

    @property
    def ratio(self) -> float:
        """1 where the order is as good as random."""
        return (self.classes - 1 + 1e-9) / (self.expected - 1 + 1e-9)


def encode_labels(labels: NDArray[np.int64]) -> tuple[NDArray[np.int32], int]:
    """Labels as codes from 0 on, and how many there are."""
    values, codes = np.unique(labels[labels != MISSING], return_inverse=True)
    return codes.astype(np.int32), len(values)


def measure_mixing(codes: NDArray[np.int32], classes: int, *, buffer: int, batch: int) -> Mixing:
    """Simulate shuffle(buffer) and batch(batch) on the labels alone."""
    found, single, _ = _native.simulate_order(codes, classes, buffer, batch, SEED)
    expected, _, _ = _native.simulate_order(codes, classes, len(codes), batch, SEED)
    return Mixing(buffer, batch, found, single, expected)


def smallest_buffer(codes: NDArray[np.int32], classes: int, *, batch: int) -> int:
    """The smallest of 10, 20, 50, 100, ... after which batches are as good as random."""
    total = len(codes)
    for exponent in range(1, 9):
        for step in (1, 2, 5):
            buffer: int = step * 10**exponent
            if buffer >= total:
                return total
            if measure_mixing(codes, classes, buffer=buffer, batch=batch).ratio >= MIXED:
                return buffer
    return total


def run_lengths(codes: NDArray[np.int32]) -> tuple[float, float]:
    """The mean length of runs of one label, and what it would be in random order."""
    runs = int(np.count_nonzero(np.diff(codes))) + 1
    shares = np.bincount(codes) / len(codes)
    expected = 1.0 / max(1.0 - float((shares**2).sum()), 1e-9)
    return len(codes) / runs, expected


@rule("ORD001", "label-sorted-shards", needs="values")
def label_sorted_shards(data: Data) -> Iterator[Finding]:
    """Records in the order of their labels, so that batches hold one class, or few.

    The shuffle and batch that are planned (`--shuffle-buffer`, `--batch-size`, or those of the script) are simulated on
    the labels with tf.data's own algorithm, and the classes in a batch are compared with those of a random order. The
    smallest buffer that would do is searched for.

    Why: each step pulls the model to one class. It learns the last one it saw, and no error says so.
    Example: shards written class by class, and `shuffle(1000)` over 50,000 records.
    Fix: write the records in random order (`bushel build data/ out/`), or a buffer as large as is named.
    Ignore: when the reader shuffles by index, as `bushel.batches` does.
    Reports: https://github.com/kmonachopoulos/ImageNet-to-TFrecord/issues/4 https://github.com/auroua/InsightFace_TF/issues/80
    """
    split = data.train
    if split is None or not (is_classification(data) or data.label is not None):
        return
    codes, classes = encode_labels(split.labels)
    batch = data.plan.batch_size or DEFAULT_BATCH
    if classes < 2 or classes > 10_000 or len(codes) < 4 * batch or 2 * classes > len(codes):
        return
    buffer = data.plan.shuffle_buffer
    mixing = measure_mixing(codes, classes, buffer=buffer or 1, batch=batch)
    if mixing.ratio >= MIXED:
        return
    safe = smallest_buffer(codes, classes, batch=batch)
    yield _sorted_finding(data, split, codes, classes, mixing, safe)


def _sorted_finding(
    data: Data, split: SplitFacts, codes: NDArray[np.int32], classes: int, mixing: Mixing, safe: int
) -> Finding:
    run, expected_run = run_lengths(codes)
    planned = data.plan.shuffle_buffer is not None
    shuffle = f"shuffle({mixing.buffer}) -> batch({mixing.batch})" if planned else f"unshuffled, batch({mixing.batch})"
    share = f"{mixing.single:.0%} of batches would hold 1 class of {classes}"
    few = f"batches would hold {mixing.classes:.1f} classes of {classes} instead of {mixing.expected:.1f}"
    files = data.files_of(split.name)
    folder = files[0].path.parent if files else "DATA"
    help = [f"rewrite the shards in random order: bushel build {folder} OUT"]
    if data.plan.said_by and planned:
        help.append(f"or change {data.plan.said_by}  .shuffle({mixing.buffer}) -> .shuffle({safe})")
    else:
        help.append(f"or shuffle with a buffer of at least {safe:,}")
    return Finding(
        share if mixing.single > 0.3 else few,
        severity="error" if planned and mixing.ratio < BAD else "warning",
        confidence="proven" if planned else "likely",
        locations=[Location(file=_pattern(data, split), feature=data.label)],
        evidence={
            "mean_run_length": round(run, 1),
            "expected_run_length": round(expected_run, 2),
            "measured": f"{shuffle}: {mixing.classes:.2f} classes per batch, expected {mixing.expected:.2f}",
            "clean_from_buffer_size": safe,
            "examined": f"labels of {len(codes):,} of {len(split.labels):,} records read",
        },
        help=help,
    )


def _pattern(data: Data, split: SplitFacts) -> str:
    files = data.files_of(split.name)
    if len(files) == 1:
        return str(files[0].path)
    return str(files[0].path.parent / f"{split.name if split.name != 'all' else ''}*") if files else split.name


@rule("ORD002", "shards-differ", severity="info", needs="values")
def shards_differ(data: Data) -> Iterator[Finding]:
    """Shards of one split whose labels are distributed quite differently.

    Why: workers that read whole shards each train on other classes, and a buffer smaller than a shard cannot mix them.
    Example: one shard for each class.
    Fix: deal the records out to shards at random: `bushel build data/ out/`.
    Ignore: when every worker reads all shards interleaved, or by index.
    Reports: https://github.com/tensorflow/tensorflow/issues/36846
    """
    for split in data.splits.values():
        files = [file for file in data.files_of(split.name) if sum(file.labels.values()) >= 50]
        if len(files) < 2 or not is_classification(data):
            continue
        labels = sorted(split.label_counts)
        table: NDArray[Any] = np.array([[file.labels.get(label, 0) for label in labels] for file in files], float)
        shares = table / table.sum(axis=1, keepdims=True)
        overall = table.sum(axis=0) / table.sum()
        distance = np.abs(shares - overall).sum(axis=1) / 2
        noise = np.sqrt(len(labels) / table.sum(axis=1))
        worst = int(np.argmax(distance - noise))
        if distance[worst] > 0.2 + noise[worst]:
            yield Finding(
                f"{files[worst].path.name} holds other labels than the rest of {split.name}",
                locations=[Location(file=str(files[worst].path), feature=data.label)],
                evidence={
                    "measured": data.by_class(dict(zip(labels, shares[worst].round(3).tolist(), strict=True))),
                    "expected": data.by_class(dict(zip(labels, overall.round(3).tolist(), strict=True))),
                    "distance": round(float(distance[worst]), 3),
                },
                help=["deal the records out to shards at random: bushel build DATA OUT"],
            )


@rule("ORD003", "split-is-a-sorted-tail", needs="values")
def split_is_a_sorted_tail(data: Data) -> Iterator[Finding]:
    """A validation or test split that holds one class, or few, while train holds many.

    Why: the data was sorted by label when its tail was cut off: the score is that of one class.
    Example: `validation_split=0.2` or the last 20 % of a file that is sorted.
    Fix: shuffle before splitting, or split by key: `bushel build SOURCE OUT --split 80/20 --stratify label`.
    Ignore: for a test of one class that is meant as such.
    Reports: https://github.com/zalandoresearch/fashion-mnist/pull/5 https://github.com/tensorflow/tfjs/issues/5976
    """
    train = data.splits.get("train")
    if train is None or not is_classification(data):
        return
    for split in data.splits.values():
        mine, theirs = len(split.label_counts), len(train.label_counts)
        enough = sum(split.label_counts.values()) >= 4 * max(theirs, mine)
        if split is not train and enough and theirs >= 2 and (mine == 1 or mine * 3 <= theirs):
            yield Finding(
                f"{split.name} holds {mine} of the {theirs} classes of train: {data.classes_of(split.label_counts)}",
                locations=[Location(file=_pattern(data, split), feature=data.label)],
                evidence={
                    "measured": data.by_class(split.label_counts),
                    "expected": f"{theirs} classes",
                    "subject": split.name,
                },
                help=[f"split with stratification: bushel build SOURCE OUT --split 80/20 --stratify {data.label}"],
            )
