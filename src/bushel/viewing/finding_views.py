"""What is wrong with a dataset, found in the background: findings of a check, duplicates, and what a build refused."""

from __future__ import annotations

import io
import threading
import wave
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import BushelError, reason_of
from bushel.records.scan import to_column
from bushel.storage import as_path, lines_inside, why_not_inside
from bushel.viewing.opened import Opened, OpenedSplit
from bushel.viewing.showing import CannotShow, picture_of

__all__ = ["BackgroundJob", "CheckJob", "DuplicateJob", "SuspectJob", "quarantined"]

Hashes: TypeAlias = NDArray[np.uint64]
_QUARANTINE = "_quarantine.jsonl"
_MOST_COMPARED = 10_000_000  # records whose contents are compared
_GROUPS = 1000  # that are kept
_AT_A_TIME = 2048
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_IDENTITY = ("key", "id", "name", "filename", "file", "path", "url", "source_id", "uuid", "index", "timestamp")
Floats: TypeAlias = NDArray[np.float32]
_MOST = 4_000  # records that are compared, spread over all splits
_LEAST = 50
_CLASSES = 200
_NEIGHBOURS = 10
_SURE = 0.7  # share of the neighbours that have one other label
_RECOGNISED = 0.5  # share of a class whose neighbours know it, for its labels to be judged by them
_SHOWN = 100
_SIDE = 12  # of an image, as it is compared
_WORDS = 256  # numbers that a text becomes
_NUMBERS = 128  # of a list
_DECODED = 48  # pixels on a side of an image that are decoded


class BackgroundJob:
    """Work in the background whose progress can be asked for."""

    def __init__(self) -> None:
        self.state = "none"  # running, done, failed
        self.done, self.of = 0, 0
        self.problem = ""
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin, unless it has begun."""
        with self._lock:
            if self.state in ("running", "done"):
                return
            self.state = "running"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.work()
            self.state = "done"
        except Exception as error:  # data is untrusted: whatever it breaks is shown
            self.problem, self.state = reason_of(error), "failed"

    def work(self) -> None:
        """Do it."""
        raise NotImplementedError

    def progress(self, done: int, of: int) -> None:
        """Note how far it is."""
        self.done, self.of = done, of

    def to_json(self) -> dict[str, Any]:
        """How far it is."""
        return {"state": self.state, "done": self.done, "of": self.of, "problem": self.problem}


class CheckJob(BackgroundJob):
    """Findings of `bushel check`, the worst first, with the records that they name."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.opened = opened
        self.findings: list[Any] = []

    def work(self) -> None:
        """Check all files."""
        from bushel.checking import check

        opened = self.opened
        files = [str(path) for part in opened.parts.values() for path in part.paths]
        self.findings = check([opened.where] if opened.manifest else files, progress=self.progress).findings

    def places(self, number: int) -> dict[str, list[int]]:
        """The records that a finding names, by split."""
        if not 0 <= number < len(self.findings):
            return {}
        found: dict[str, list[int]] = {}
        for location in self.findings[number].locations:
            if location.file is None or location.record is None:
                continue
            for name, part in self.opened.parts.items():
                row = part.row_of(location.file, location.record)
                if row is not None:
                    found.setdefault(name, []).append(row)
        return found

    def to_json(self) -> dict[str, Any]:
        """All findings."""
        return {
            **super().to_json(),
            "findings": [
                {
                    "rule": finding.rule,
                    "name": finding.name,
                    "severity": finding.severity,
                    "confidence": finding.confidence,
                    "message": finding.message,
                    "help": list(finding.help),
                    "where": [str(location) for location in finding.locations[:5]],
                    "places": {name: len(rows) for name, rows in self.places(number).items()},
                }
                for number, finding in enumerate(self.findings)
            ],
        }


class DuplicateJob(BackgroundJob):
    """Records with the same content, over all splits; labels and keys are no content."""

    def __init__(self, opened: Opened, roles: Callable[[], dict[str, str]]) -> None:
        super().__init__()
        self.opened = opened
        self._roles = roles
        self.groups: list[list[tuple[str, int]]] = []
        self.count = 0  # of all groups
        self.extra = 0  # records beyond the first of each group

    def work(self) -> None:
        """Hash the contents of all records and compare the hashes."""
        parts = list(self.opened.parts.values())
        total = sum(map(len, parts))
        if total > _MOST_COMPARED:
            raise BushelError(f"contents of {total:,} records are too many to compare here: run bushel check")
        names = content_of(self.opened, self._roles())
        if not names:
            raise BushelError("there is nothing in the records but labels and keys")
        hashes, owners, rows = [], [], []
        for number, part in enumerate(parts):
            for first, found, good in _contents(part, names):
                hashes.append(found)
                rows.append(good + first)
                owners.append(np.full(len(found), number, np.int32))
                self.progress(self.done + len(found), total)
        if hashes:
            self._group(np.concatenate(hashes), np.concatenate(owners), np.concatenate(rows))

    def _group(self, hashes: Hashes, owners: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
        order = np.argsort(hashes, kind="stable")
        same = hashes[order][1:] == hashes[order][:-1]
        self.extra = int(same.sum())
        starts = np.flatnonzero(same & ~np.concatenate([[False], same[:-1]]))
        self.count = len(starts)
        names = list(self.opened.parts)
        for start in starts[:_GROUPS].tolist():
            end = start + 1
            while end < len(same) and same[end]:
                end += 1
            members = order[start : end + 1]
            self.groups.append([(names[owners[at]], int(rows[at])) for at in members.tolist()])
        self.groups.sort(key=lambda group: (len({split for split, _ in group}) == 1, -len(group)))

    def to_json(self) -> dict[str, Any]:
        """The first groups; those that are in several splits come first."""
        groups = [[{"split": split, "row": row} for split, row in group[:24]] for group in self.groups[:100]]
        return {**super().to_json(), "groups": groups, "count": self.count, "extra": self.extra}


class SharedJob(BackgroundJob):
    """Contents that are in two splits, of one dataset or of two."""

    def __init__(self, parts: Sequence[OpenedSplit], names: Sequence[str]) -> None:
        super().__init__()
        self._parts = parts
        self._names = list(names)
        self.count = 0
        self.pairs: list[tuple[int, int]] = []  # a record of each side

    def work(self) -> None:
        """Hash the contents of both sides and join them."""
        total = sum(map(len, self._parts))
        if total > _MOST_COMPARED:
            raise BushelError(f"contents of {total:,} records are too many to compare here: run bushel check")
        if not self._names:
            raise BushelError("the two have no feature in common that is content")
        sides = []
        for part in self._parts:
            hashes, rows = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
            for first, found, good in _contents(part, self._names):
                hashes.append(found)
                rows.append(good + first)
                self.progress(self.done + len(found), total)
            sides.append((np.concatenate(hashes), np.concatenate(rows)))
        (one, left), (other, right) = sides
        shared, at, there = np.intersect1d(one, other, return_indices=True)
        self.count = len(shared)
        self.pairs = list(zip(left[at[:50]].tolist(), right[there[:50]].tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """How many, and the first of them."""
        return {**super().to_json(), "count": self.count, "pairs": self.pairs[:12]}


def content_of(opened: Opened, roles: Mapping[str, str]) -> list[str]:
    """Features that make two records the same: no labels, no keys, and no single numbers if there is more."""
    kept = [name for name in opened.schema.features if roles.get(name) != "label"]
    telling = [name for name in kept if name.rpartition("/")[2].lower() not in _IDENTITY and "label" not in name]
    large = [name for name in telling if roles.get(name) not in ("number", "boxes")]
    return large or telling


def _contents(part: OpenedSplit, names: list[str]) -> Iterator[tuple[int, Hashes, NDArray[np.int64]]]:
    """The hashes of some records at a time, the number of the first of their shard, and their numbers in it."""
    for first, shard in part.each_shard():
        known = [name for name in names if name in shard.schema]
        count = len(shard.shards)
        for begin in range(0, count, _AT_A_TIME):
            rows = np.arange(begin, min(begin + _AT_A_TIME, count), dtype=np.int64)
            good = shard.usable(rows)
            if not len(good):
                continue
            total: Hashes = np.zeros(len(good), np.uint64)
            for column in shard.shards.decode(good, shard.wanted(known)).columns:
                total = total * _FACTOR + _hashed(to_column(column))
            yield first, total, good


def _hashed(column: Any) -> Hashes:
    if isinstance(column, Ragged):
        if isinstance(column.values, np.ndarray):
            width = column.values.itemsize * int(np.prod(column.values.shape[1:], dtype=np.int64))
            return _rows_hashed(np.asarray(column.row_splits, np.int64) * width, column.values)
        inner = _hashed(column.values)
        return _rows_hashed(np.asarray(column.row_splits, np.int64) * 8, inner)
    if isinstance(column, BytesColumn):
        found: Any = _native.hash_column(np.ascontiguousarray(column.offsets, np.int64), column.data)
        return np.asarray(found, np.uint64)
    array = np.ascontiguousarray(column)
    width = array.nbytes // max(1, len(array))
    return _rows_hashed(np.arange(len(array) + 1, dtype=np.int64) * width, array)


def _rows_hashed(offsets: NDArray[np.int64], values: NDArray[Any]) -> Hashes:
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    found: Any = _native.hash_column(np.ascontiguousarray(offsets), data)
    return np.asarray(found, np.uint64)


def quarantined(opened: Opened, start: int, count: int) -> dict[str, Any]:
    """What the build of a dataset refused, and why: a page of it, and how often each reason occurs."""
    folder = as_path(opened.where)
    entries = list(islice(_lines(folder), start, start + count)) if opened.manifest else []
    reasons: dict[str, int] = {}
    for entry in islice(_lines(folder) if opened.manifest else iter(()), 100_000):
        reason = f"{entry.get('stage', '')}: {entry.get('reason', '')}"[:200]
        reasons[reason] = reasons.get(reason, 0) + 1
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    return {
        "total": opened.manifest.refused if opened.manifest else 0,
        "entries": entries,
        "reasons": [[reason, times] for reason, times in ordered[:50]],
    }


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    if not (folder / _QUARANTINE).is_file() or why_not_inside(folder, _QUARANTINE):
        return
    for line in lines_inside(folder, _QUARANTINE):
        try:
            yield msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            yield {"reason": "this line of the quarantine is damaged", "source": "", "stage": "", "key": ""}


class SuspectJob(BackgroundJob):
    """Looks for labels that neighbours contradict."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.opened = opened
        self.suspects: list[dict[str, Any]] = []
        self.compared = 0
        self.agreement = 0.0
        self.by: list[str] = []

    def work(self) -> None:
        """Compare the contents of some records with each other."""
        names = [name for name in content_of(self.opened, self.opened.roles) if self.opened.roles.get(name) != "boxes"]
        places, labels, blocks = self._read(names)
        classes = Counter(labels)
        if len(labels) < _LEAST:
            raise BushelError(f"{len(labels)} records with a label and content are too few to compare")
        if not 2 <= len(classes) <= _CLASSES:
            raise BushelError(
                f"{self.opened.label!r} has {len(classes):,} values in {len(labels):,} records: not classes"
            )
        self.by, self.compared = [name for name in names if name in blocks], len(labels)
        known, codes = np.unique(np.array(labels), return_inverse=True)
        near = _nearest(_scaled([blocks[name] for name in self.by]))
        self._judge(places, known, codes, near)

    def _read(self, names: Sequence[str]) -> tuple[list[tuple[str, int]], list[str], dict[str, Floats]]:
        """Records spread over all splits: where they are, their labels, and their contents as numbers."""
        parts, roles = self.opened.parts, self.opened.roles
        total = sum(map(len, parts.values()))
        places, labels, rows = [], [], []
        for name, part in parts.items():
            count = min(len(part), max(1, _MOST * len(part) // max(1, total)))
            for row in np.unique(np.linspace(0, len(part) - 1, count).astype(np.int64)).tolist() if len(part) else ():
                values = part.record(row).values
                self.progress(self.done + 1, min(total, _MOST))
                label = values.get(self.opened.label)
                if not isinstance(label, int | str | bytes):
                    continue
                places.append((name, row))
                labels.append(self._class(label))
                rows.append(_numbers(values, roles, names))
        blocks = {}
        for name in names:
            sizes = Counter(len(row[name]) for row in rows if name in row)
            if sizes and (most := sizes.most_common(1)[0])[1] >= 0.9 * len(rows) and most[0]:
                nothing = np.zeros(most[0], np.float32)
                found = [row.get(name, nothing) for row in rows]
                blocks[name] = np.stack([one if len(one) == most[0] else nothing for one in found])
        if not blocks:
            raise BushelError("there is no content that can be compared: images, sounds, texts or numbers")
        return places, labels, blocks

    def _class(self, label: int | str | bytes) -> str:
        names = self.opened.classes
        if isinstance(label, int):
            return names[label] if 0 <= label < len(names) else str(label)
        return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else label

    def _judge(self, places: list[tuple[str, int]], known: Any, codes: Any, near: NDArray[np.int64]) -> None:
        votes = np.zeros((len(codes), len(known)), np.int64)
        np.add.at(votes, (np.arange(len(codes))[:, None], codes[near]), 1)
        top = votes.argmax(axis=1)
        agrees = top == codes
        self.agreement = float(agrees.mean())
        recognised = np.array([agrees[codes == code].mean() >= _RECOGNISED for code in range(len(known))])
        share = votes.max(axis=1) / near.shape[1]
        wrong = np.flatnonzero(~agrees & (share >= _SURE) & recognised[codes] & recognised[top])
        for at in wrong[np.argsort(-share[wrong], kind="stable")].tolist():
            alike = [other for other in near[at].tolist() if codes[other] == top[at]][:3]
            self.suspects.append(
                {
                    "split": places[at][0],
                    "row": places[at][1],
                    "label": str(known[codes[at]]),
                    "meant": str(known[top[at]]),
                    "votes": int(votes[at].max()),
                    "of": near.shape[1],
                    "neighbours": [{"split": places[other][0], "row": places[other][1]} for other in alike],
                }
            )

    def rows(self, split: str) -> list[int]:
        """The suspected records of a split, the surest first."""
        return [one["row"] for one in self.suspects if one["split"] == split]

    def to_json(self) -> dict[str, Any]:
        """The surest of them."""
        counts = Counter(one["split"] for one in self.suspects)
        facts = {"count": len(self.suspects), "compared": self.compared, "agreement": self.agreement, "by": self.by}
        return {**super().to_json(), **facts, "splits": dict(counts), "suspects": self.suspects[:_SHOWN]}


def _numbers(values: Mapping[str, Any], roles: Mapping[str, str], names: Sequence[str]) -> dict[str, Floats]:
    """What is compared of a record; what is broken is left out."""
    found = {}
    for name in names:
        if name in values:
            try:
                found[name] = _vector(values[name], roles.get(name, ""))
            except (CannotShow, ValueError, TypeError, OverflowError, EOFError, wave.Error):
                continue
    return found


def _vector(value: Any, role: str) -> Floats:
    if role in ("image", "frames"):
        return _pixels(value, role)
    if role == "audio":
        return _spectrum(value)
    if isinstance(value, bytes):
        return np.empty(0, np.float32)
    if role == "tokens" or isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], str)):
        texts = value if isinstance(value, list) else [value]
        return _words(np.ravel(value).astype(str).tolist() if role == "tokens" else " ".join(texts).lower().split())
    array = np.nan_to_num(np.ravel(np.asarray(value, np.float32)))
    return array if len(array) <= _NUMBERS else array[np.linspace(0, len(array) - 1, _NUMBERS).astype(int)]


def _pixels(value: Any, role: str) -> Floats:
    from PIL import Image

    pixels = picture_of(value, role, 0, _DECODED)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
    small = np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.BOX), np.float32)
    return np.asarray(small.ravel() / np.float32(255), np.float32)


def _words(words: Sequence[str]) -> Floats:
    """Counts of words, each in one of some places: the same text gives the same numbers everywhere."""
    found = np.zeros(_WORDS, np.float32)
    np.add.at(found, [zlib.crc32(word.encode("utf-8", "replace")) % _WORDS for word in words], 1.0)
    found = np.sqrt(found)
    return np.asarray(found / (np.linalg.norm(found) or 1.0), np.float32)


def _spectrum(value: Any) -> Floats:
    if isinstance(value, bytes):
        with wave.open(io.BytesIO(value)) as sound:
            samples = np.frombuffer(sound.readframes(1 << 18), "<i2").astype(np.float32)
    else:
        samples = np.ravel(np.asarray(value, np.float32))[: 1 << 18]
    strength = np.abs(np.fft.rfft(np.nan_to_num(samples), 1 << 14))[1:]
    return np.asarray(np.log1p(strength.reshape(64, -1).mean(axis=1)), np.float32)


def _scaled(blocks: Sequence[Floats]) -> Floats:
    """Contents beside each other, each feature of the same weight; single numbers scaled alike."""
    made = []
    for block in blocks:
        spread = block.std(axis=0) if block.shape[1] < _SIDE else np.full(block.shape[1], block.std())
        even = (block - block.mean(axis=0)) / np.where(spread > 0, spread, 1)
        made.append(np.clip(even, -4, 4) / np.sqrt(block.shape[1]))
    return np.asarray(np.concatenate(made, axis=1), np.float32)


def _nearest(values: Floats) -> NDArray[np.int64]:
    """The nearest other rows of each row."""
    squares = (values**2).sum(axis=1)
    found = []
    for first in range(0, len(values), 500):
        some = values[first : first + 500]
        distances = squares[None, :] - 2 * some @ values.T
        distances[np.arange(len(some)), first + np.arange(len(some))] = np.inf
        nearest = np.argpartition(distances, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        order = np.argsort(np.take_along_axis(distances, nearest, axis=1), axis=1)
        found.append(np.take_along_axis(nearest, order, axis=1))
    return np.concatenate(found).astype(np.int64)
