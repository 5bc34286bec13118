"""LBL: labels against the contents of their records, and against the labels of records like them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel.checking.collect.content_sample import ContentSample
from bushel.checking.collect.facts import MISSING, Data
from bushel.checking.collect.value_facts import RowSample
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.checking.rules.label_rules import is_classification
from bushel.data.roles import Account
from bushel.records.leaks import Column, Leak, find_leaks
from bushel.records.likeness import (
    MAX_CLASSES,
    MIN_RECORDS,
    NEIGHBOURS,
    Votes,
    count_votes,
    find_suspects,
    scaled,
)

MIN_ROWS = 50
MIN_OF_CLASS = 5
MAX_LEAK_CLASSES = 50
CONTRADICTED = 0.03  # share of all records: more than the borders between classes have
MIN_OF_FILE = 20
MOST_WORDS = 500
COMMON = 0.02  # share of texts that have a word, to be looked at
LEARNED = 0.1  # by how much neighbours must beat the most frequent label, to say anything of files
SIGNIFICANT = 5.0  # standard errors


def has_classes(data: Data) -> bool:
    """Whether labels are classes, be they numbers or names."""
    if data.label is None or data.plan.is_regression:
        return False
    is_text = not data.label_is_integer and data.account is not None and data.account.task == "classification"
    return is_text or is_classification(data)


@rule("LBL009", "feature-tells-label", severity="warning", needs=("values", "rows", "neighbours"))
def feature_tells_label(data: Data) -> Iterator[Finding]:
    """A feature that alone predicts nearly all labels, by its value or by being there: it may be a leak.

    A table of values or of ranges is made from four fifths of the records and tried on the rest. Besides features, the
    words of texts, parts of images and the sizes of both are tried. It is a warning if the feature is a copy of the
    label, only counts records, tells by being there or missing, or predicts what no other feature comes near; otherwise
    it may just be a good one.

    Why: the model learns to read this one feature; where it is used, the feature is not known or means nothing.
    Example: `boat` of the Titanic, which only survivors have; `refund_amount` of customers who left; a row number of a
    table that is sorted by class; a mark in the corner of all pictures of one class.
    Fix: leave the feature out: `bushel build SOURCE OUT --columns A,B` names those to keep; so does `bushel train`.
    Ignore: where the feature is known when predictions are made, and the task is really that easy.
    """
    for leak, of, count in [*_leaks_of_rows(data), *_leaks_of_contents(data)]:
        is_label = leak.how == "copy"
        what = f"alone predicts {_share_of(leak.score)} labels (the largest class has {leak.baseline:.0%})"
        yield Finding(
            f"{leak.feature!r} " + ("is the label under another name" if is_label else f"{what}: {leak.why}"),
            severity="warning" if leak.is_odd else "info",
            confidence="likely",
            locations=[Location(feature=of)],
            evidence={
                "measured": round(leak.score, 4),
                "expected": round(leak.baseline, 4),
                "best_other": round(leak.others, 4),
                "by": leak.how,
                "why": leak.why,
                "examined": f"{count:,} records, each predicted from the others",
                "subject": leak.feature,
            },
            help=[f"train without {of!r}, unless it is known when you predict: --columns names the features to keep"],
        )


def _share_of(score: float) -> str:
    return "all" if score >= 0.9995 else f"{score:.1%} of"


def _leaks_of_rows(data: Data) -> list[tuple[Leak, str, int]]:
    """Among numbers and short texts."""
    rows = _labelled(data)
    if rows is None:
        return []
    of = {rows.name(at): name for at, name in enumerate(rows.features)}
    columns = [
        Column(rows.name(at), rows.values[:, at], bool(rows.is_number[at]), name)
        for at, name in enumerate(rows.features)
        # Names and paths of files hold the class's name more often than not.
        if rows.is_number[at] or name not in data.identity
    ]
    return [(leak, of[leak.feature], len(rows)) for leak in find_leaks(columns, rows.labels)]


def _leaks_of_contents(data: Data) -> list[tuple[Leak, str, int]]:
    """Among fields of images, words of texts, and sizes."""
    sample = _compared(data)
    if sample is None or data.account is None or len(np.unique(sample.labels)) > MAX_LEAK_CLASSES:
        return []
    columns = list(_content_columns(sample, data.account))
    of = {column.name: column.of for column in columns}
    sizes = {column.name: column.name.rpartition(" of ")[2] for column in columns if not column.of}
    found = find_leaks(columns, sample.labels)
    return [(leak, of[leak.feature] or sizes[leak.feature], len(sample)) for leak in found]


def _content_columns(sample: ContentSample, account: Account) -> Iterator[Column]:
    for name, block in sample.blocks().items():
        if account.kind_of(name) in ("image", "frames"):
            side = math.isqrt(block.shape[1] // 3)
            for at in range(0, block.shape[1], 3):
                row, column = divmod(at // 3, side)
                where = f"{name}, {row / side:.0%} from the top and {column / side:.0%} from the left"
                yield Column(where, block[:, at : at + 3].mean(axis=1).astype(np.float64), of=name)
    for name in sorted({name for row in sample.rows for name in row.sizes}):
        yield Column(name, np.array([row.sizes.get(name, np.nan) for row in sample.rows]))
    for name in sorted({name for row in sample.rows for name in row.words}):
        texts = [row.words.get(name, frozenset()) for row in sample.rows]
        counted = Counter(word for words in texts for word in words)
        common = [word for word, count in counted.most_common(MOST_WORDS) if count >= COMMON * len(texts)]
        for word in common:
            yield Column(f"{name}, the word {word}", np.array([float(word in words) for words in texts]), of=name)


def _labelled(data: Data) -> RowSample | None:
    """Rows with a label, of classes that have some; None if they are too few to say anything."""
    return data.once("labelled", lambda: _find_labelled(data))


def _find_labelled(data: Data) -> RowSample | None:
    if data.rows is None or not has_classes(data):
        return None
    rows: RowSample = data.rows.unique()  # copies say the same of themselves
    labels = _enough_of(rows.labels[rows.labels != MISSING])
    kept = np.flatnonzero(np.isin(rows.labels, labels))
    return rows.some(kept) if 2 <= len(labels) <= MAX_LEAK_CLASSES and len(kept) >= MIN_ROWS else None


def _enough_of(labels: NDArray[np.int64]) -> list[int]:
    """The labels that some records have."""
    found, counts = np.unique(labels, return_counts=True)
    enough: list[int] = found[counts >= MIN_OF_CLASS].tolist()
    return enough


def _compared(data: Data) -> ContentSample | None:
    """Records with a label as their contents; None if they are too few, or labels are no classes."""
    return data.once("compared", lambda: _find_compared(data))


def _find_compared(data: Data) -> ContentSample | None:
    if data.contents is None or not has_classes(data):
        return None
    sample: ContentSample = data.contents.unique()
    labels = _enough_of(sample.labels)
    sample = sample.of_labels(labels)
    return sample if 2 <= len(labels) <= MAX_CLASSES and len(sample) >= MIN_RECORDS else None


class Judged(NamedTuple):
    """What neighbours say of some records."""

    sample: ContentSample
    labels: NDArray[np.int64]  # the classes, in the order of the votes
    votes: Votes


def _votes(data: Data) -> Judged | None:
    """What neighbours say, found once for all rules."""
    return data.once("votes", lambda: _count_votes(data))


def _count_votes(data: Data) -> Judged | None:
    sample = _compared(data)
    blocks = sample.blocks() if sample is not None else {}
    if sample is None or sum(block.shape[1] for block in blocks.values()) < 2:
        return None
    labels, codes = np.unique(sample.labels, return_inverse=True)
    return Judged(sample, labels, count_votes(scaled(blocks.values()), codes.astype(np.int64), sample.files))


@rule(
    "LBL010",
    "neighbours-contradict-label",
    severity="warning",
    needs=("values", "neighbours"),
    when=(),
    shows="neighbours",
)
def neighbours_contradict_label(data: Data) -> Iterator[Finding]:
    """Records whose nearest neighbours nearly all have one other label, in classes that neighbours predict well.

    Up to 4,000 records are compared by their contents: small pictures, words of texts, spectra of sounds, numbers. It
    is what the page of `bushel view` shows under *Labels*.

    Why: these labels are probably wrong: they hold the score down and teach the model noise.
    Example: two annotators, one of whom swapped two classes for a day.
    Fix: compare the records that are named with their sources, and correct their labels.
    Ignore: where classes overlap by nature, as different outcomes of the same symptoms do.
    """
    judged = _votes(data)
    if judged is None:
        return
    found, rows = find_suspects(judged.votes), judged.sample.rows
    share = len(found.rows) / len(rows)
    if len(found.rows) >= MIN_OF_CLASS and share > 0.01:
        said, meant = judged.votes.codes[found.rows], found.meant
        pairs, counts = np.unique(np.stack([said, meant]), axis=1, return_counts=True)
        one, other = (judged.labels[code] for code in pairs[:, counts.argmax()].tolist())
        yield Finding(
            f"{count_of_things(len(found.rows), 'record')} of {len(rows):,} whose neighbours contradict their label, "
            f"most often {data.class_of(int(one))} among {data.class_of(int(other))}",
            severity="info" if share < CONTRADICTED else None,
            confidence="likely",
            locations=[data.location(rows[row].place, data.label) for row in found.rows[:5].tolist()],
            evidence={
                "measured": round(share, 4),
                "agreement": round(found.agreement, 3),
                "compared_by": sorted(judged.sample.blocks()),
                "examined": f"{NEIGHBOURS} neighbours of each of {len(rows):,} records",
            },
            help=["compare the records named with their sources, and correct their labels: bushel view shows them"],
        )


@rule("LBL011", "labels-of-one-file-differ", needs=("values", "neighbours"), when=(), silences=("LBL010",))
def labels_of_one_file_differ(data: Data) -> Iterator[Finding]:
    """A file whose labels do not fit: like records in all other files have other labels.

    Why: its classes were numbered differently, or its labels were shuffled or shifted: a part of the data teaches the
    opposite, or nothing.
    Example: one shard was written with the class list of an older version.
    Fix: write the file again with the class list of the others.
    Ignore: where files hold records that are alike and really have other labels.
    """
    judged = _votes(data)
    if judged is None or len(np.unique(judged.sample.files)) < 2:
        return
    scores = _scores_of_files(judged)
    codes = judged.votes.codes
    baseline = float(np.bincount(codes).max() / len(codes))
    for file in _odd_files(scores, baseline):
        score, usual, rows = scores[file]
        mapped = _mapped(data, judged, rows)
        swapped = "; ".join(f"{said} here is {meant} elsewhere" for said, meant in list(mapped.items())[:4])
        yield Finding(
            f"labels of {data.files[file].path.name} contradict those of other files"
            + (f": {swapped}" if swapped else ""),
            confidence="likely",
            locations=[Location(file=str(data.files[file].path), feature=data.label)],
            evidence={
                "measured": round(score, 3),
                "expected": round(usual, 3),
                "by_chance": round(baseline, 3),
                "examined": f"{NEIGHBOURS} neighbours in other files of each of {len(rows):,} records",
                "subject": data.files[file].path.name,
            },
            help=["write this file again with the class list of the others, or look at how its labels were joined"],
        )


def _scores_of_files(judged: Judged) -> dict[int, tuple[float, float, NDArray[np.intp]]]:
    """Of each file: how many labels neighbours in others have too, how many would usually be, and its rows."""
    votes, files = judged.votes, judged.sample.files
    across, within = votes.agreement(votes.other), votes.agreement(votes.own)
    scores: dict[int, tuple[float, float, NDArray[np.intp]]] = {}
    for file in np.unique(files).tolist():
        elsewhere, counts = np.unique(votes.codes[files != file], return_counts=True)
        mine = np.flatnonzero((files == file) & np.isin(votes.codes, elsewhere[counts >= MIN_OF_CLASS]))
        is_dense = 2 * int((files != file).sum()) >= len(mine)  # else neighbours elsewhere are farther away
        if is_dense and len(mine) >= MIN_OF_FILE and len(np.unique(votes.codes[mine])) > 1:
            scores[file] = (float(across[mine].mean()), float(within[mine].mean()), mine)
    found = {}
    for file, (score, own, mine) in scores.items():
        others = [other for name, (other, _, _) in scores.items() if name != file]
        found[file] = (score, max([own, *([float(np.median(others))] if len(others) > 1 else [])]), mine)
    return found


def _odd_files(scores: dict[int, tuple[float, float, NDArray[np.intp]]], baseline: float) -> list[int]:
    """Files whose labels neighbours in others contradict, and not because those others are the wrong ones."""
    worst = min((score for score, _, _ in scores.values()), default=0.0)
    found = []
    for file, (score, usual, rows) in scores.items():
        gain, error = usual - baseline, math.sqrt(max(usual * (1 - usual), 0.01) / len(rows))
        is_low = score <= baseline + 0.4 * gain and usual - score > SIGNIFICANT * error
        if gain >= LEARNED and is_low and score <= worst + 0.15:
            found.append(file)
    if len(scores) == 2 and len(found) == 2:  # they contradict each other: it is the one that contradicts itself, too
        return [min(found, key=lambda file: (round(scores[file][1], 2), -file))]
    return found


def _mapped(data: Data, judged: Judged, rows: NDArray[np.intp]) -> dict[str, str]:
    """Which class of a file is which one of other files, where that is clear."""
    top, codes = judged.votes.other[rows].argmax(axis=1), judged.votes.codes[rows]
    mapped = {}
    for code in np.unique(codes).tolist():
        values, counts = np.unique(top[codes == code], return_counts=True)
        if counts.max() >= 0.7 * counts.sum() and values[counts.argmax()] != code:
            said, meant = judged.labels[code], judged.labels[values[counts.argmax()]]
            mapped[data.class_of(int(said))] = data.class_of(int(meant))
    return mapped
