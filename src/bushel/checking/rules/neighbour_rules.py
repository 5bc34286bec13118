"""LBL009 to LBL011: labels against the features of their records and against the labels of records like them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.checking.collect.facts import MISSING, Data
from bushel.checking.collect.row_sample import RowSample
from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.label_rules import is_classification
from bushel.checking.rules.registry import rule

__all__: list[str] = []

MIN_ROWS = 50
MIN_OF_CLASS = 5
MAX_CLASSES = 50
COMPARED = 2_000  # rows whose neighbours are looked for
NEIGHBOURS = 10
UNANIMOUS = 0.9  # share of the neighbours that have one other label
RECOGNISED = 0.8  # share of a class whose neighbours know it, for its labels to be judged by them
CONTRADICTED = 0.03  # share of all records: more than the borders between classes have
MIN_OF_FILE = 20


@rule("LBL009", "feature-tells-label", severity="warning", needs=("values", "rows"))
def feature_tells_label(data: Data) -> Iterator[Finding]:
    """A feature that is the label under another name, or that alone tells every label: a leak.

    Why: the model learns to read this one feature; where it is used, the feature is not known or means nothing.
    Example: an index column of a table that is sorted by class; a column `diagnosis` next to `label`.
    Fix: leave the feature out: `bushel build SOURCE OUT --columns A,B` names those to keep; so does `bushel train`.
    Ignore: where the feature is known when predictions are made, and the task is really that easy.
    Reports: none collected.
    """
    rows = _labelled(data)
    if rows is None:
        return
    for column in range(len(rows.features)):
        name = rows.features[column]
        if name in data.identity and not rows.is_number[column]:
            continue  # names and paths of files hold the class's name more often than not
        told = _how_it_tells(rows.values[:, column], rows.labels)
        if told is not None:
            is_label = told == "copy"
            what = "is the label under another name" if is_label else "alone tells the label of every record"
            yield Finding(
                f"{rows.name(column)!r} {what}",
                severity=None if told != "order" or _is_index(rows.values[:, column]) else "info",
                confidence="likely",
                locations=[Location(feature=name)],
                evidence={
                    "measured": {
                        "copy": "every label has one value, and every value one label",
                        "value": "every value has one label",
                        "order": f"sorted by it, each of the {len(np.unique(rows.labels))} labels is one run",
                    }[told],
                    "examined": f"{len(rows):,} records",
                    "subject": rows.name(column),
                },
                help=[
                    f"train without {name!r}, unless it is known when you predict: --columns names the features to keep"
                ],
            )


def _labelled(data: Data) -> RowSample | None:
    """Rows with a label, of classes that have some; None if they are too few to say anything."""
    if data.rows is None or not is_classification(data):
        return None
    rows: RowSample = data.rows.unique()  # copies say the same of themselves
    labels, counts = np.unique(rows.labels[rows.labels != MISSING], return_counts=True)
    kept = np.isin(rows.labels, labels[counts >= MIN_OF_CLASS])
    classes = int((counts >= MIN_OF_CLASS).sum())
    return rows.some(np.flatnonzero(kept)) if 2 <= classes <= MAX_CLASSES and kept.sum() >= MIN_ROWS else None


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
        pairs = np.unique(np.stack([codes, labels]), axis=1).shape[1]
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
    if "votes" not in data.memo:
        data.memo["votes"] = _count_votes(data)
    found: Votes | None = data.memo["votes"]
    return found


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
    for first in range(0, len(rows), 500):
        some = np.arange(first, min(first + 500, len(rows)))
        distances = squares[None, :] - 2 * values[some] @ values.T
        distances[np.arange(len(some)), some] = np.inf
        is_own = rows.files[some][:, None] == rows.files[None, :]
        ways = (None,) if is_own.all() else (None, is_own, ~is_own)
        for votes, wanted in zip(found, ways, strict=False):
            _count(
                votes[some[0] : some[-1] + 1],
                distances if wanted is None else np.where(wanted, distances, np.inf),
                codes,
            )
    return Votes(rows, labels, *found)


def _count(votes: NDArray[np.int64], distances: NDArray[np.float32], codes: NDArray[np.intp]) -> None:
    if distances.shape[1] <= NEIGHBOURS:
        return
    nearest = np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    row, at = np.nonzero(np.isfinite(np.take_along_axis(distances, nearest, axis=1)))
    np.add.at(votes, (row, codes[nearest[row, at]]), 1)


@rule("LBL010", "neighbours-contradict-label", severity="warning", needs=("values", "rows"), when=())
def neighbours_contradict_label(data: Data) -> Iterator[Finding]:
    """Records whose nearest neighbours nearly all have one other label, in classes that neighbours tell well.

    Why: these labels are probably wrong: they hold the score down and teach the model noise.
    Example: two annotators, one of whom swapped two classes for a day.
    Fix: compare the records that are named with their sources, and correct their labels.
    Ignore: where classes overlap by nature, as different outcomes of the same symptoms do.
    Reports: none collected.
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
    Reports: https://github.com/google-deepmind/dmvr/issues/6
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
