"""LBL: labels, by themselves, against the features of their records, and against the labels of records like them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.checking.collect.facts import MISSING, Data, SplitFacts
from bushel.checking.collect.value_facts import RowSample
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.data.categories import look_like_numbers
from bushel.errors import Fault
from bushel.parallel import map_in_threads

MAX_CLASSES = 10_000  # more distinct integers are no classes
RARE = 5
IMBALANCE = 10.0
MIN_RECORDS = 50


def _counts(data: Data) -> dict[int, int]:
    counts: dict[int, int] = {}
    for split in data.splits.values():
        for label, count in split.label_counts.items():
            counts[label] = counts.get(label, 0) + count
    return counts


def is_classification(data: Data) -> bool:
    """Whether labels are classes: as declared, or integers of which there are far fewer than records."""
    if data.label is None or not data.label_is_integer or data.plan.is_regression:
        return False
    declared = data.manifest.label if data.manifest is not None else None
    if declared is not None and (declared.task != "classification" or declared.names):
        return declared.task == "classification"
    counts = _counts(data)
    are_numbers = data.once("are_numbers", lambda: data.plan.classes is None and look_like_numbers(counts))
    if declared is not None:  # a build calls all integers classes
        return not are_numbers
    is_far_less = 0 < len(counts) <= MAX_CLASSES and len(counts) * 2 <= max(sum(counts.values()), 4)
    return is_far_less and not are_numbers


def _classes(data: Data) -> int | None:
    """How many classes are declared, by the plan or by the manifest's names."""
    if data.plan.classes is not None:
        return data.plan.classes
    if data.manifest is not None and data.manifest.label is not None and data.manifest.label.names:
        return len(data.manifest.label.names)
    return None


def _first_place(data: Data, bad: list[int]) -> list[Location]:
    for split in data.splits.values():
        rows = np.flatnonzero(np.isin(split.labels, bad))
        if len(rows):
            number, record = _file_of(data, split, int(rows[0]))
            return [Location(file=str(data.files[number].path), record=record, feature=data.label)]
    return [Location(feature=data.label)]


def _file_of(data: Data, split: SplitFacts, row: int) -> tuple[int, int]:
    for file in data.files_of(split.name):
        if row < file.records:
            return file.number, row
        row -= file.records
    return 0, row


@rule("LBL001", "label-out-of-range", needs="values")
def label_out_of_range(data: Data) -> Iterator[Finding]:
    """Labels below 0, or not below the number of classes.

    Why: `Received a label value of 66908 outside the valid range of [0, 66908)` on CPU, NaN or nothing on GPU. -1 is
    what a lookup table gives for a class name that it does not know.
    Example: labels 1 to 10 for a head of 10.
    Fix: subtract 1, widen the head, or complete the list of class names.
    Ignore: where -1 or 255 marks records that the loss ignores (`ignore_class`).
    """
    if not is_classification(data):
        return
    counts, classes = _counts(data), _classes(data)
    bad = sorted(label for label in counts if label < 0 or (classes is not None and label >= classes))
    if not bad:
        return
    count = sum(counts[label] for label in bad)
    one_based = classes is not None and min(counts) == 1 and max(counts) == classes
    yield Finding(
        f"{count_of_things(count, 'label is', 'labels are')} outside 0 to {(classes or max(counts) + 1) - 1}: "
        + ", ".join(map(str, bad[:5]))
        + (" (labels begin at 1)" if one_based else ""),
        locations=_first_place(data, bad),
        evidence={
            "measured": [min(counts), max(counts)],
            "expected": [0, (classes or max(counts) + 1) - 1],
            "records": count,
            "examined": data.examined(),
        },
        help=[
            "subtract 1 from every label"
            if one_based
            else "-1 stands for a class name that the lookup table does not know: add the name to its list"
            if bad == [-1]
            else f"use at least {max(counts) + 1} classes, or correct the labels"
        ],
    )


@rule("LBL002", "one-based-labels-or-gaps", severity="warning", needs="values")
def one_based_labels_or_gaps(data: Data) -> Iterator[Finding]:
    """Labels that begin at 1, or numbers between the smallest and the largest that no record has.

    Why: a head of K classes takes 0 to K-1: beginning at 1 needs K+1, and a gap is a class that is never learned.
    Labels such as 48 to 57 are the ASCII codes of digits; all values up to 255 are bytes of an image.
    Example: 1, 2, 3 from a tool that keeps 0 for the background.
    Fix: map labels to 0..K-1 once, and keep the map.
    Ignore: where 0 is the background, or a class has no sample in this part of the data.
    """
    if not is_classification(data):
        return
    counts = _counts(data)
    low, high = min(counts), max(counts)
    classes = _classes(data)
    if low < 0 or (classes is not None and low == 0) or sum(counts.values()) < MIN_RECORDS:
        return
    missing = [label for label in range(low, high + 1) if label not in counts] if high - low < MAX_CLASSES else []
    is_ascii = {chr(label) for label in counts if label < 128} <= set("0123456789") and low >= 48
    if is_ascii or low == 1 or (low > 1 and len(counts) > 1) or len(missing) > 0:
        what = (
            f"labels {low} to {high} are ASCII codes of digits"
            if is_ascii
            else f"labels begin at {low}"
            if low >= 1
            else f"no record has label {', '.join(map(str, missing[:5]))}"
            + (f" or {len(missing) - 5:,} others" if len(missing) > 5 else "")
            + f" between {low} and {high}"
        )
        yield Finding(
            what,
            severity="error" if is_ascii else "warning" if low >= 1 or high >= 2 * len(counts) else "info",
            confidence="proven" if is_ascii else "likely",
            locations=[Location(feature=data.label)],
            evidence={
                "measured": [low, high],
                "classes": len(counts),
                "missing": missing[:8],
                "examined": data.examined(),
            },
            help=[
                f"use int(label) - {low}"
                if low >= 1 and not is_ascii
                else "map labels to 0..K-1 once, and keep the map"
            ],
        )


@rule("LBL003", "class-map-differs", needs="values")
def class_map_differs(data: Data) -> Iterator[Finding]:
    """A class whose number differs between splits, or one number for two classes.

    Why: train learns one map and validation is scored by another: accuracy near 0 with a model that is right.
    Example: `{name: i for i, name in enumerate(os.listdir(split))}` for each split, with one folder missing in one.
    Fix: make the map once, sort the names, and keep it with the dataset; `bushel build` does.
    Ignore: never.
    """
    codes: dict[str, dict[int, list[str]]] = {}
    unclear = 0  # names that have several numbers within one split
    for split, pairs in data.label_pairs.items():
        unclear = max(unclear, sum(len(found) > 1 for found in pairs.values()))
        if unclear * 2 > len(pairs):  # these are not the names of the classes
            return
        for name, found in pairs.items():
            for number in found:
                codes.setdefault(name, {}).setdefault(number, []).append(split)
    wrong = {name: numbers for name, numbers in codes.items() if len(numbers) > 1}
    if wrong:
        name, numbers = next(iter(sorted(wrong.items())))
        said = " and ".join(f"{number} in {', '.join(splits)}" for number, splits in sorted(numbers.items()))
        yield Finding(
            f"{count_of_things(len(wrong), 'class has', 'classes have')} more than one number: {name!r} is {said}",
            confidence="likely" if unclear else "proven",  # each name has one number within each split
            locations=[Location(feature=data.label)],
            evidence={"measured": {n: sorted(c) for n, c in wrong.items()}, "expected": "one number per class"},
            help=["number the sorted class names once, and use that map for every split"],
        )


@rule("LBL004", "label-missing-from-train", needs="values")
def label_missing_from_train(data: Data) -> Iterator[Finding]:
    """Labels that validation or test have and train does not.

    Why: the model is scored on classes that it could not learn: accuracy has a ceiling that nobody sees.
    Example: a split by file name, where a class has only late files.
    Fix: split by key with stratification: `bushel build SOURCE OUT --split 80/10/10 --stratify label`.
    Ignore: for open-set tests.
    """
    if not is_classification(data):
        return
    train = data.splits.get("train")
    for split in data.splits.values() if train is not None and train.records else ():
        assert train is not None
        missing = sorted(set(split.label_counts) - set(train.label_counts))
        if split is not train and missing:
            yield Finding(
                f"{count_of_things(len(missing), 'label')} of {split.name} never in train: {data.classes_of(missing)}",
                locations=_first_place(data, missing),
                evidence={
                    "measured": data.by_class({label: split.label_counts[label] for label in missing}),
                    "expected": "in train too",
                    "subject": split.name,
                },
                help=[f"split with stratification: bushel build SOURCE OUT --split 80/10/10 --stratify {data.label}"],
            )


@rule("LBL008", "rare-label", severity="warning", needs="values")
def rare_label(data: Data) -> Iterator[Finding]:
    """Classes with fewer than five records to learn from.

    Why: so few records are memorised, not learned, and the score of the class is decided by one or two of them.
    Example: one photo of a breed among thousands of others.
    Fix: gather more records, or join the class with another.
    Ignore: where rare classes are expected and not scored one by one.
    """
    if not is_classification(data):
        return
    source = data.train
    rare = {k: n for k, n in (source.label_counts if source else {}).items() if n < RARE}
    if source is not None and rare and source.records >= MIN_RECORDS and len(rare) < len(source.label_counts):
        yield Finding(
            f"{count_of_things(len(rare), 'class has', 'classes have')} fewer than {RARE} records in {source.name}: "
            + data.classes_of(rare),
            locations=_first_place(data, list(rare)),
            evidence={"measured": data.by_class(rare), "subject": "rare"},
            help=["gather more records of them, or join them with another class"],
        )


@rule("LBL005", "imbalanced-classes", severity="info", needs="values")
def imbalanced_classes(data: Data) -> Iterator[Finding]:
    """Classes of which one has more than ten times the records of another, with the weights to use.

    Why: always predicting the largest class then scores well, and a model learns that first.
    Example: 99 % "no defect": accuracy 0.99 with a model that sees nothing.
    Fix: `class_weight` in `fit`, or `bushel build SOURCE OUT --balance oversample`; look at recall for each class.
    Ignore: where the metric is weighted, or the shares are those of the real world and calibrated scores are wanted.
    """
    if not is_classification(data) or data.train is None or data.train.records < MIN_RECORDS:
        return
    counts = data.train.label_counts
    largest, smallest = max(counts, key=lambda k: counts[k]), min(counts, key=lambda k: counts[k])
    ratio = counts[largest] / counts[smallest]
    if len(counts) > 1 and ratio > IMBALANCE:
        total = sum(counts.values())
        weights = {label: round(total / (len(counts) * count), 4) for label, count in counts.items()}
        yield Finding(
            f"class {data.class_of(largest)} has {ratio:.0f} times the records of class {data.class_of(smallest)}",
            severity="warning" if ratio > 100 else "info",
            locations=[Location(feature=data.label)],
            evidence={"measured": data.by_class(counts), "weights": data.by_class(weights)},
            help=[f"model.fit(..., class_weight={dict(list(weights.items())[:20])})"],
        )


@rule("LBL006", "same-content-two-labels", severity="warning", needs="contents")
def same_content_two_labels(data: Data) -> Iterator[Finding]:
    """Records with the same content and different labels.

    Why: one of the labels is wrong, and no model can be right about both.
    Example: an image that two annotators saw.
    Fix: look at them and keep one label, or leave both out.
    Ignore: where one content has several labels on purpose.
    """
    found = data.duplicates
    if found is None or not found.conflicts or not is_classification(data):
        return
    yield Finding(
        f"{count_of_things(found.conflicts, 'content has', 'contents have')} two labels",
        locations=[data.location(place, data.label) for places, _ in found.conflict_places for place in places],
        evidence={
            "measured": found.conflicts,
            "labels": [[data.class_of(label) for label in pair] for _, pair in found.conflict_places],
        },
        help=["look at the pairs of records named, and correct or drop one of each"],
    )


@rule("LBL007", "label-missing", severity="error", needs="values")
def label_missing(data: Data) -> Iterator[Finding]:
    """Records without a label among records with one.

    Why: with a `default_value` they all become class 0; without one training stops at the first.
    Example: None in the annotation table, and "return 0" as the popular fix.
    Fix: leave them out, or put them into a separate split.
    Ignore: for a test split that has no labels at all.
    """
    for split in data.splits.values():
        if data.label is None:
            return
        rows = np.flatnonzero(split.labels == MISSING)
        malformed = split.malformed[0] if split.malformed else 0
        damaged = sum(
            len(file.unstable) + sum(fault.fault is Fault.DATA_CRC for fault in file.faults)
            for file in data.files_of(split.name)
        )
        count = len(rows) - malformed - damaged
        if 0 < count < split.records:
            place = _file_of(data, split, int(rows[0]))
            yield Finding(
                f"{count_of_things(count, 'record')} of {split.records:,} in {split.name} without {data.label!r}",
                locations=[data.location(place, data.label)],
                evidence={"measured": count, "expected": 0, "subject": split.name},
                help=["leave them out; a default would make them class 0"],
            )


MIN_ROWS = 50
MIN_OF_CLASS = 5
MAX_COMPARED_CLASSES = 50
COMPARED = 2_000  # rows whose neighbours are looked for
NEIGHBOURS = 10
UNANIMOUS = 0.9  # share of the neighbours that have one other label
RECOGNISED = 0.8  # share of a class whose neighbours know it, for its labels to be judged by them
CONTRADICTED = 0.03  # share of all records: more than the borders between classes have
MIN_OF_FILE = 20
_TILE, _TILE_ROWS = 1 << 18, 64  # multiplications from which on OpenBLAS uses threads; rows of a tile


@rule("LBL009", "feature-tells-label", severity="warning", needs=("values", "rows"))
def feature_tells_label(data: Data) -> Iterator[Finding]:
    """A feature that is the label under another name, or that alone determines every label: a leak.

    Why: the model learns to read this one feature; where it is used, the feature is not known or means nothing.
    Example: an index column of a table that is sorted by class; a column `diagnosis` next to `label`.
    Fix: leave the feature out: `bushel build SOURCE OUT --columns A,B` names those to keep; so does `bushel train`.
    Ignore: where the feature is known when predictions are made, and the task is really that easy.
    """
    rows = _labelled(data)
    if rows is None:
        return
    for column in range(len(rows.features)):
        name = rows.features[column]
        if name in data.identity and not rows.is_number[column]:
            continue  # names and paths of files hold the class's name more often than not
        stated = _how_it_tells(rows.values[:, column], rows.labels)
        if stated is not None:
            is_label = stated == "copy"
            what = "is the label under another name" if is_label else "alone predicts the label of every record"
            yield Finding(
                f"{rows.name(column)!r} {what}",
                severity=None if stated != "order" or _is_index(rows.values[:, column]) else "info",
                confidence="likely",
                locations=[Location(feature=name)],
                evidence={
                    "measured": {
                        "copy": "every label has one value, and every value one label",
                        "value": "every value has one label",
                        "order": f"sorted by it, each of the {len(np.unique(rows.labels))} labels is one run",
                    }[stated],
                    "examined": f"{len(rows):,} records",
                    "subject": rows.name(column),
                },
                help=[
                    f"train without {name!r}, unless it is known when you predict: --columns names the features to keep"
                ],
            )


def _labelled(data: Data) -> RowSample | None:
    """Rows with a label, of classes that have some; None if they are too few to say anything."""
    return data.once("labelled", lambda: _find_labelled(data))


def _find_labelled(data: Data) -> RowSample | None:
    if data.rows is None or not is_classification(data):
        return None
    rows: RowSample = data.rows.unique()  # copies say the same of themselves
    labels, counts = np.unique(rows.labels[rows.labels != MISSING], return_counts=True)
    kept = np.isin(rows.labels, labels[counts >= MIN_OF_CLASS])
    classes = int((counts >= MIN_OF_CLASS).sum())
    return rows.some(np.flatnonzero(kept)) if 2 <= classes <= MAX_COMPARED_CLASSES and kept.sum() >= MIN_ROWS else None


def _how_it_tells(values: NDArray[np.float64], labels: NDArray[np.int64]) -> str | None:
    """`copy`, `value` or `order`; None if a column does not tell every label."""
    known = np.isfinite(values)
    if known.mean() < 0.99:
        return None
    values, labels = values[known], labels[known]
    distinct, codes = np.unique(values, return_inverse=True)
    classes = np.unique(labels)
    if len(distinct) < 2 or len(classes) < 2:
        return None
    if 5 * len(distinct) <= len(values):  # values that repeat
        pairs = len(np.unique(codes * len(classes) + np.searchsorted(classes, labels)))
        return None if pairs > len(distinct) else "copy" if len(distinct) == len(classes) else "value"
    runs = 1 + int(np.count_nonzero(np.diff(labels[np.argsort(values, kind="stable")])))
    return "order" if runs == len(classes) and len(distinct) >= 0.9 * len(values) else None


def _is_index(values: NDArray[np.float64]) -> bool:
    """Whether values count something: whole numbers, none of them twice."""
    return bool((values == np.rint(values)).all()) and len(np.unique(values)) == len(values)


@dataclass(frozen=True)
class Votes:
    """What neighbours say of some rows: of all files, of the row's own file, and of others."""

    rows: RowSample
    labels: NDArray[np.int64]  # the classes, in the order of the votes
    all: NDArray[np.int64]
    own: NDArray[np.int64]
    other: NDArray[np.int64]

    def agreement(self, votes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether most neighbours of a row have its label; False where there are none."""
        return np.asarray((self.labels[votes.argmax(axis=1)] == self.rows.labels) & (votes.sum(axis=1) > 0))


def _votes(data: Data) -> Votes | None:
    """What neighbours say, found once for all rules."""
    return data.once("votes", lambda: _count_votes(data))


def _count_votes(data: Data) -> Votes | None:
    """The labels of the nearest rows, by all numbers that are not keys, scaled alike."""
    rows = _labelled(data)
    if rows is None or len(rows) < 2 * MIN_ROWS:
        return None
    columns = rows.columns(without=data.identity, numbers=True)
    if len(columns) < 2:
        return None
    rows = rows.some(np.unique(np.linspace(0, len(rows) - 1, min(len(rows), COMPARED)).astype(np.int64)))
    values = rows.values[:, columns]
    low, middle, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=0)
    scale = np.where(high > low, high - low, np.nanstd(values, axis=0))
    values = np.nan_to_num(np.clip((values - middle) / np.where(scale > 0, scale, 1), -3, 3)).astype(np.float32)
    labels, codes = np.unique(rows.labels, return_inverse=True)
    found = [np.zeros((len(rows), len(labels)), np.int64) for _ in range(3)]
    squares = (values**2).sum(axis=1)

    def count_some(first: int) -> None:
        some = np.arange(first, min(first + 500, len(rows)))
        distances = squares[None, :] - 2 * _products(values[some], values)
        distances[np.arange(len(some)), some] = np.inf
        is_own = rows.files[some][:, None] == rows.files[None, :]
        ways = (None,) if is_own.all() else (None, is_own, ~is_own)
        for votes, wanted in zip(found, ways, strict=False):
            _count(
                votes[some[0] : some[-1] + 1],
                distances if wanted is None else np.where(wanted, distances, np.inf),
                codes,
            )

    for _ in map_in_threads(count_some, range(0, len(rows), 500)):
        pass
    return Votes(rows, labels, *found)


def _products(some: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """`some @ others.T`, in tiles so small that BLAS wakes no threads: they would spin for longer than this takes."""
    out = np.empty((len(some), len(others)), np.float32)
    width = max(1, _TILE // (_TILE_ROWS * some.shape[1]))
    for row in range(0, len(some), _TILE_ROWS):
        for column in range(0, len(others), width):
            tile = some[row : row + _TILE_ROWS] @ others[column : column + width].T
            out[row : row + _TILE_ROWS, column : column + width] = tile
    return out


def _count(votes: NDArray[np.int64], distances: NDArray[np.float32], codes: NDArray[np.intp]) -> None:
    if distances.shape[1] <= NEIGHBOURS:
        return
    nearest = np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    row, at = np.nonzero(np.isfinite(np.take_along_axis(distances, nearest, axis=1)))
    np.add.at(votes, (row, codes[nearest[row, at]]), 1)


@rule("LBL010", "neighbours-contradict-label", severity="warning", needs=("values", "rows"), when=())
def neighbours_contradict_label(data: Data) -> Iterator[Finding]:
    """Records whose nearest neighbours nearly all have one other label, in classes that neighbours predict well.

    Why: these labels are probably wrong: they hold the score down and teach the model noise.
    Example: two annotators, one of whom swapped two classes for a day.
    Fix: compare the records that are named with their sources, and correct their labels.
    Ignore: where classes overlap by nature, as different outcomes of the same symptoms do.
    """
    votes = _votes(data)
    if votes is None:
        return
    agree, labels = votes.agreement(votes.all), votes.rows.labels
    recognised = {label for label in votes.labels.tolist() if agree[labels == label].mean() >= RECOGNISED}
    top = votes.labels[votes.all.argmax(axis=1)]
    sure = votes.all.max(axis=1) >= UNANIMOUS * NEIGHBOURS
    known = np.isin(labels, list(recognised)) & np.isin(top, list(recognised))
    wrong = np.flatnonzero(sure & known & (top != labels))
    share = len(wrong) / len(labels)
    if len(wrong) >= MIN_OF_CLASS and share > 0.01:
        pairs, counts = np.unique(np.stack([labels[wrong], top[wrong]]), axis=1, return_counts=True)
        said, meant = pairs[:, counts.argmax()].tolist()
        yield Finding(
            f"{count_of_things(len(wrong), 'record')} of {len(labels):,} whose neighbours contradict their label, "
            f"most often {data.class_of(said)} among {data.class_of(meant)}",
            severity="info" if share < CONTRADICTED else None,
            confidence="likely",
            locations=[data.location(votes.rows.place(row), data.label) for row in wrong[:5]],
            evidence={
                "measured": round(share, 4),
                "agreement": round(float(agree.mean()), 3),
                "examined": f"{NEIGHBOURS} neighbours of each of {len(labels):,} records",
            },
            help=["compare the records named with their sources, and correct their labels"],
        )


@rule("LBL011", "labels-of-one-file-differ", needs=("values", "rows"), when=(), silences=("LBL010",))
def labels_of_one_file_differ(data: Data) -> Iterator[Finding]:
    """A file whose labels do not fit: like records in all other files have other labels.

    Why: its classes were numbered differently, or its labels were shuffled: a part of the data teaches the opposite.
    Example: one shard was written with the class list of an older version.
    Fix: write the file again with the class list of the others.
    Ignore: where files hold records that are alike and really have other labels.
    """
    votes = _votes(data)
    if votes is None or len(np.unique(votes.rows.files)) < 2:
        return
    labels, files = votes.rows.labels, votes.rows.files
    across, within = votes.agreement(votes.other), votes.agreement(votes.own)
    scores: dict[int, tuple[float, float, NDArray[np.intp]]] = {}
    for file in np.unique(files).tolist():
        elsewhere, counts = np.unique(labels[files != file], return_counts=True)
        mine = np.flatnonzero((files == file) & np.isin(labels, elsewhere[counts >= MIN_OF_CLASS]))
        if len(mine) >= MIN_OF_FILE and len(np.unique(labels[mine])) > 1:
            scores[file] = (float(across[mine].mean()), float(within[mine].mean()), mine)
    worst = min((score for score, _, _ in scores.values()), default=0.0)
    for file, (score, own, mine) in scores.items():
        if score > worst + 0.15:
            continue  # contradicted by the files that are wrong
        others = [other for name, (other, _, _) in scores.items() if name != file]
        usual = max([own, *([float(np.median(others))] if len(others) > 1 else [])])
        if not others or usual < 0.7 or score > 0.5 * usual or (len(others) == 1 and file != max(scores)):
            continue
        top = votes.labels[votes.other[mine].argmax(axis=1)]
        mapped = {}
        for label in np.unique(labels[mine]).tolist():
            values, counts = np.unique(top[labels[mine] == label], return_counts=True)
            if counts.max() >= 0.7 * counts.sum() and values[counts.argmax()] != label:
                mapped[data.class_of(label)] = data.class_of(int(values[counts.argmax()]))
        swapped = "; ".join(f"{said} here is {meant} elsewhere" for said, meant in list(mapped.items())[:4])
        yield Finding(
            f"labels of {data.files[file].path.name} contradict those of other files"
            + (f": {swapped}" if swapped else ""),
            confidence="likely",
            locations=[Location(file=str(data.files[file].path), feature=data.label)],
            evidence={
                "measured": round(score, 3),
                "expected": round(usual, 3),
                "examined": f"{NEIGHBOURS} neighbours in other files of each of {len(mine):,} records",
                "subject": data.files[file].path.name,
            },
            help=["write this file again with the class list of the others"],
        )
