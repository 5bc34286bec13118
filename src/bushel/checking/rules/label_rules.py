"""LBL: labels by themselves: their range, their names, and how often each occurs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bushel.checking.collect.facts import MISSING, Data, SplitFacts
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.data.categories import look_like_numbers
from bushel.errors import Fault

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
    is_guessed = data.account is not None and data.account.is_guess  # only its name says that it is the label
    if wrong:
        name, numbers = next(iter(sorted(wrong.items())))
        said = " and ".join(f"{number} in {', '.join(splits)}" for number, splits in sorted(numbers.items()))
        yield Finding(
            f"{count_of_things(len(wrong), 'class has', 'classes have')} more than one number: {name!r} is {said}",
            confidence="likely" if unclear or is_guessed else "proven",  # each name has one number within each split
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


@rule("LBL006", "same-content-two-labels", severity="warning", needs="contents", shows="pairs")
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
