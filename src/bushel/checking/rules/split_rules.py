"""SPL and ORD: splits that share records or differ, and the order of records, by what a shuffle buffer makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import Data, FeatureFacts, SplitFacts
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.checking.rules.label_rules import is_classification
from bushel.data.splits import train_first
from bushel.parallel import map_in_threads

MIN_RECORDS = 100
DRIFT = 0.15
SHIFT = 0.5  # of a standard deviation


@rule("SPL001", "duplicate-across-splits", needs="contents", shows="pairs")
def duplicate_across_splits(data: Data) -> Iterator[Finding]:
    """Records of one split whose content is in another split too.

    Every record's content (all features but keys, labels and groups) is hashed to 128 bits, and the hashes are joined.
    The finding names features that were left out. If only its name says that one is a key, the finding is not proven.
    Records of a few numbers or short texts count only if they agree far oftener than records that just differ.

    Why: the model has seen the answers: 93 % reported, 82 % without the duplicates.
    Example: all 2,443 test images are in train.
    Fix: drop the copies from the source before it is split: `rows.drop_duplicates()` of a table, one of the files with
    the same bytes. Splitting again does not help: copies have keys of their own.
    Ignore: where the same content really occurs again, and should count each time.
    """
    for (one, other), count in (data.duplicates.across if data.duplicates else {}).items():
        total = data.splits[other].records
        pairs = data.duplicates.across_places[one, other]
        yield Finding(
            f"{count:,} of {count_of_things(total, 'record')} of {other} {'is' if count == 1 else 'are'} "
            f"in {one} too ({count / max(total, 1):.1%}){_without(data)}",
            confidence="likely" if data.left_out_by_name else "proven",
            severity="error" if count > 0.001 * total else "warning",
            locations=[data.location(place) for pair in pairs for place in pair],
            evidence={"measured": count, "expected": 0, "examined": data.examined(), "subject": f"{one}/{other}"},
            help=[f"drop the copies from the source before it is split, or drop these records from {other}"],
        )


def _without(data: Data) -> str:
    """What was not compared, in words."""
    names = sorted(data.left_out_by_name)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    kinds = {name: data.left_out.get(name, "") for name in names}
    said = ", ".join(f"{name!r} ({kinds[name]})" if kinds[name] else repr(name) for name in names[:3])
    return f"; compared without {said}{more}" if names else ""


@rule("SPL002", "near-duplicate-image-across-splits", severity="warning", needs="near_images", shows="pairs")
def near_duplicate_image_across_splits(data: Data) -> Iterator[Finding]:
    """Images of two splits that look the same: resized, encoded again, or frames of one video.

    A perceptual hash of 64 bits finds pairs that differ in at most 5; thumbnails of 16 x 16 confirm them.

    Why: near copies are answers that the model has seen, like copies: the score is too good.
    Example: neighbouring frames of one clip in train and test.
    Fix: split by the clip, the patient or the page: `bushel build SOURCE OUT --group COLUMN`.
    Ignore: for images that really all look alike, such as scans of one form.
    """
    for (one, other), pairs in (data.pictures.near if data.pictures else {}).items():
        records = {pair.other for pair in pairs}
        total = data.splits[other].records
        best = sorted(pairs, key=lambda pair: (pair.distance, pair.difference))[:3]
        yield Finding(
            f"{count_of_things(len(records), 'image')} of {other} nearly the same as images of {one}",
            severity="warning" if len(records) > 0.005 * total else "info",
            confidence="likely",
            locations=[data.location(place) for pair in best for place in (pair.one, pair.other)],
            evidence={
                "measured": len(records),
                "distance_in_bits": [pair.distance for pair in best],
                "thumbnails_differ_by": [round(pair.difference, 2) for pair in best],
                "examined": f"{data.pictures.compared:,} images compared",
                "subject": f"{one}/{other}",
            },
            help=["split by what they have in common: bushel build SOURCE OUT --group COLUMN"],
        )


@rule("SPL003", "near-duplicate-text-across-splits", severity="warning", needs="near_texts", shows="pairs")
def near_duplicate_text_across_splits(data: Data) -> Iterator[Finding]:
    """Texts of two splits that share nearly all their phrases.

    MinHash over phrases of three words; pairs of 85 % likeness and more.

    Why: a model that has memorised a text is scored on it.
    Example: a page and its copy with another date.
    Fix: split by document family, or drop the near copies from validation.
    Ignore: for texts from templates, where the template is most of the text.
    """
    for (one, other), pairs in (data.texts.near if data.texts else {}).items():
        records = {pair[1] for pair in pairs}
        total = data.splits[other].records
        best = sorted(pairs, key=lambda pair: -pair[2])[:3]
        yield Finding(
            f"{count_of_things(len(records), 'text')} of {other} nearly the same as texts of {one}",
            severity="warning" if len(records) > 0.005 * total else "info",
            confidence="likely",
            locations=[data.location(place) for a, b, _ in best for place in (a, b)],
            evidence={
                "measured": len(records),
                "likeness": [round(pair[2], 2) for pair in best],
                "examined": f"{data.texts.compared:,} texts compared",
                "subject": f"{one}/{other}",
            },
            help=["drop them from validation, or split by document family"],
        )


@rule("SPL004", "group-in-two-splits", needs="values")
def group_in_two_splits(data: Data) -> Iterator[Finding]:
    """A patient, user, speaker or other group whose records are in two splits.

    Why: the model recognises the person instead of the illness.
    Example: `patient_id` 17 in train and in test.
    Fix: `bushel build SOURCE OUT --group patient_id`.
    Ignore: where the groups of the future are the groups of today.
    """
    names = sorted({name for split in data.splits.values() for name in split.groups})
    for name in names:
        present = [split for split in data.splits.values() if name in split.groups]
        order = sorted(present, key=lambda split: train_first(split.name))
        for other in order[1:]:
            first = order[0]
            common = np.intersect1d(first.groups[name], other.groups[name])
            if len(common):
                yield Finding(
                    f"{count_of_things(len(common), 'value')} of {name!r} in {other.name} and in {first.name} too",
                    locations=[Location(file=str(data.files_of(other.name)[0].path), feature=name)],
                    evidence={"measured": len(common), "expected": 0, "subject": f"{first.name}/{other.name}"},
                    help=[f"split by it: bushel build SOURCE OUT --split 80/10/10 --resplit --group {name}"],
                )


@rule("SPL005", "label-drift", severity="warning", needs="values")
def label_drift(data: Data) -> Iterator[Finding]:
    """Labels whose shares differ between splits by far more than chance allows.

    Why: a threshold or a prior that was tuned on one does not hold for the other.
    Example: 50 % positives in train, 5 % in validation.
    Fix: split with stratification: `bushel build SOURCE OUT --split 80/20 --stratify label`.
    Ignore: where train was balanced on purpose.
    """
    train = data.splits.get("train")
    if train is None or not is_classification(data):
        return
    for split in data.splits.values():
        if split is train or min(sum(s.label_counts.values()) for s in (split, train)) < MIN_RECORDS:
            continue
        labels = sorted({*train.label_counts, *split.label_counts})
        mine, theirs = _shares(split, labels), _shares(train, labels)
        gap = np.abs(mine - theirs)
        worst = int(np.argmax(gap))
        noise = 4 * np.sqrt(
            max(theirs[worst], 0.01) / min(sum(split.label_counts.values()), sum(train.label_counts.values()))
        )
        if gap[worst] > max(DRIFT, noise):
            yield Finding(
                f"{data.class_of(labels[worst])} is {mine[worst]:.0%} of {split.name} and {theirs[worst]:.0%} of train",
                locations=[Location(feature=data.label)],
                evidence={
                    "measured": round(float(mine[worst]), 3),
                    "expected": round(float(theirs[worst]), 3),
                    "largest_difference": round(float(gap[worst]), 3),
                    "subject": split.name,
                },
                help=[f"split with stratification: bushel build SOURCE OUT --split 80/20 --stratify {data.label}"],
            )


def _shares(split: SplitFacts, labels: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    counts = np.array([split.label_counts.get(label, 0) for label in labels], float)
    return np.asarray(counts / max(counts.sum(), 1.0))


@rule("SPL006", "feature-drift", severity="warning", needs=("values", "images"))
def feature_drift(data: Data) -> Iterator[Finding]:
    """Numbers whose distribution differs between splits, brightness of images included.

    Why: the model meets values that it has never seen. Often a normalisation was done for one split only.
    Example: train in 0..1, validation in 0..255.
    Fix: one function for all splits, fitted on train.
    Ignore: for splits by time, where drift is what you want to measure.
    """
    train = data.splits.get("train")
    for split in data.splits.values() if train is not None else ():
        assert train is not None
        if split is train or min(split.records, train.records) < MIN_RECORDS:
            continue
        for name, feature in split.features.items():
            other = train.features.get(name)
            if (
                other is None
                or not feature.is_number
                or not other.is_number
                or name == data.label
                or name in split.groups
            ):
                continue
            distance = _distance(feature.seen["sample"], other.seen["sample"])
            shift = abs(feature.mean - other.mean) / max(other.deviation, 1e-12)
            if distance > 0.3 and shift > SHIFT and not _is_running_number(feature, other):
                yield Finding(
                    f"{name!r} has mean {feature.mean:.4g} in {split.name} and {other.mean:.4g} in train",
                    severity="error" if distance > 0.9 else None,
                    locations=[Location(feature=name)],
                    evidence={
                        "measured": {"mean": feature.mean, "deviation": feature.deviation},
                        "expected": {"mean": other.mean, "deviation": other.deviation},
                        "distance": round(distance, 3),
                        "subject": split.name,
                    },
                    help=["prepare all splits with one function, fitted on train"],
                )
    yield from _brightness_drift(data)


def _brightness_drift(data: Data) -> Iterator[Finding]:
    brightness = {
        s: np.array(v) for s, v in (data.pictures.brightness if data.pictures else {}).items() if len(v) >= 50
    }
    train = brightness.get("train")
    for split, values in brightness.items() if train is not None else ():
        assert train is not None
        if split != "train" and _distance(values, train) > 0.5:
            yield Finding(
                f"images of {split} have mean brightness {values.mean():.0f}, those of train {train.mean():.0f}",
                confidence="likely",
                locations=[Location(file=str(file.path)) for file in data.files_of(split)[:1]],
                evidence={"measured": float(values.mean()), "expected": float(train.mean()), "subject": split},
                help=["prepare the images of all splits in the same way"],
            )


def _distance(
    one: np.ndarray[tuple[int], np.dtype[np.float64]], other: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """Kolmogorov-Smirnov: the largest difference of the two distributions."""
    one, other = np.sort(one[np.isfinite(one)]), np.sort(other[np.isfinite(other)])
    if not len(one) or not len(other):
        return 0.0
    points = np.concatenate([one, other])
    left = np.searchsorted(one, points, side="right") / len(one)
    right = np.searchsorted(other, points, side="right") / len(other)
    return float(np.abs(left - right).max())


def _is_running_number(feature: FeatureFacts, other: FeatureFacts) -> bool:
    """Whether a feature counts records, in each split from the beginning or where another split ended."""
    if not feature.length == other.length == 1:
        return False
    is_apart = feature.min > other.max or feature.max < other.min
    return (is_apart and feature.dtype == "int64") or (_is_counter(feature) and _is_counter(other))


def _is_counter(feature: FeatureFacts) -> bool:
    """Whether values go up from the smallest to the largest in equal steps: mean and deviation tell it."""
    count, span = feature.records, feature.max - feature.min
    if count < 3 or span <= 0:
        return False
    deviation = span * np.sqrt((count + 1) / (12 * (count - 1)))
    is_even = abs(feature.mean - (feature.min + feature.max) / 2) < 1e-3 * span
    return bool(is_even and abs(feature.deviation - deviation) < 1e-3 * deviation)


@rule("SPL007", "normalised-by-its-own-statistics", severity="warning", needs="values")
def normalised_by_its_own_statistics(data: Data) -> Iterator[Finding]:
    """Every split has mean 0 and deviation 1 more exactly than chance allows.

    Why: each was normalised with its own statistics, so the same input means different things in train and test.
    Example: `(x - x.mean()) / x.std()` on `x_test`.
    Fix: keep the mean and deviation of train, and use them for all splits.
    Ignore: never.
    """
    train = data.splits.get("train")
    for split in data.splits.values() if train is not None else ():
        assert train is not None
        for name, feature in split.features.items():
            other = train.features.get(name)
            if split is train or other is None or feature.dtype != "float32" or not feature.is_number:
                continue
            chance = 1.0 / np.sqrt(max(split.records, 1))
            exact = all(abs(f.mean) < 1e-4 and abs(f.deviation - 1) < 1e-3 for f in (feature, other))
            if exact and split.records >= 20 and chance > 1e-3:
                yield Finding(
                    f"{name!r} has mean 0 and deviation 1 in {split.name} by itself; chance would leave {chance:.2g}",
                    confidence="likely",
                    locations=[Location(feature=name)],
                    evidence={"measured": [feature.mean, feature.deviation], "expected": chance, "subject": split.name},
                    help=["normalise every split with the mean and deviation of train"],
                )


@rule("SPL008", "duplicate-within-split", severity="info", needs="contents", shows="pairs")
def duplicate_within_split(data: Data) -> Iterator[Finding]:
    """Records whose content occurs more than once in one split.

    Why: they count double; many of them mean that a source was read twice.
    Example: a build that was run twice into one folder.
    Fix: drop the copies, unless they were made on purpose.
    Ignore: after oversampling.
    """
    for split, count in (data.duplicates.within if data.duplicates else {}).items():
        total = data.splits[split].records
        yield Finding(
            f"{count_of_things(count, 'record')} of {total:,} in {split} repeat another",
            severity="warning" if count * 2 >= total else "info",
            locations=[data.location(place) for pair in data.duplicates.within_places[split] for place in pair],
            evidence={"measured": count, "examined": data.examined(), "subject": split},
            help=["drop the copies, unless they were made on purpose"],
        )


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


def measure_mixing(codes: NDArray[np.int32], classes: int, *, buffer: int, batch: int) -> Mixing:
    """Simulate shuffle(buffer) and batch(batch) on the labels alone."""

    def simulate(size: int) -> tuple[float, float, int]:
        return _native.simulate_order(codes, classes, size, batch, SEED)

    (_, (found, single, _)), (_, (expected, _, _)) = map_in_threads(simulate, (buffer, len(codes)))
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
    """
    split = data.train
    if split is None or not (is_classification(data) or data.label is not None):
        return
    codes, values = split.coded_labels
    classes = len(values)
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
