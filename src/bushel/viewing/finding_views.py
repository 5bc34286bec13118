"""What is wrong with a dataset, found in the background: findings of a check, duplicates, and what a build refused."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelError, reason_of
from bushel.records.likeness import (
    COMPARED,
    MAX_CLASSES,
    MIN_RECORDS,
    Votes,
    blocks_of,
    content_hashes,
    count_votes,
    find_suspects,
    numbers_of,
    scaled,
    telling_features,
)
from bushel.storage import as_path, lines_inside, why_not_inside
from bushel.viewing.opened import Opened, OpenedSplit

if TYPE_CHECKING:
    from bushel.checking import Finding

__all__ = ["BackgroundJob", "CheckJob", "DuplicateJob", "Place", "SuspectJob", "quarantined"]

Hashes: TypeAlias = NDArray[np.uint64]
Place: TypeAlias = tuple[str, int]  # a record: its split and its number there
_QUARANTINE = "_quarantine.jsonl"
_MOST_COMPARED = 10_000_000  # records whose contents are compared
_GROUPS = 1000  # that are kept
_SHOWN = 100
_GROUPS_SHOWN = 3  # of the records that show a finding
_RECORDS_SHOWN = 6  # of those, where they are one group


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


def _shows(finding: Finding) -> str:
    """How the records that a finding names belong together; rules of others are known while a check runs only."""
    from bushel.checking.findings import all_rules  # which imports every rule

    return next((rule.shows for rule in all_rules() if rule.id == finding.rule), "records")


class CheckJob(BackgroundJob):
    """Findings of `bushel check`, the worst first, with the records that they name.

    A finding about neighbours names the records but not the neighbours: `suspects` finds these when the check is done.
    """

    def __init__(self, opened: Opened, suspects: SuspectJob) -> None:
        super().__init__()
        self.opened = opened
        self.suspects = suspects
        self.findings: list[Any] = []

    def work(self) -> None:
        """Check all files."""
        from bushel.checking import check

        opened = self.opened
        files = [str(path) for part in opened.parts.values() for path in part.paths]
        self.findings = check([opened.where] if opened.manifest else files, progress=self.progress).findings
        if any(_shows(finding) == "neighbours" for finding in self.findings):
            self.suspects.start()

    def places(self, number: int) -> dict[str, list[int]]:
        """The records that a finding names, by split."""
        found: dict[str, list[int]] = {}
        for split, row in self._records(number):
            found.setdefault(split, []).append(row)
        return found

    def _records(self, number: int) -> list[Place]:
        """The records that a finding names, in its order."""
        if not 0 <= number < len(self.findings):
            return []
        found: list[Place] = []
        for location in self.findings[number].locations:
            if location.file is None or location.record is None:
                continue
            for name, part in self.opened.parts.items():
                row = part.row_of(location.file, location.record)
                if row is not None:
                    found.append((name, row))
        return found

    def groups(self, number: int) -> list[list[Place]]:
        """The records that show a finding: those that belong together are in one group."""
        shows, records = _shows(self.findings[number]), self._records(number)
        if shows == "neighbours" and self.suspects.state == "done":
            return self.suspects.groups(_GROUPS_SHOWN) or [records[:_RECORDS_SHOWN]]
        if shows == "pairs":
            return [records[at : at + 2] for at in range(0, len(records), 2)][:_GROUPS_SHOWN]
        return [list(dict.fromkeys(records))[:_RECORDS_SHOWN]] if records else []

    def features(self, number: int) -> list[str]:
        """The features that a finding is about."""
        named = (location.feature for location in self.findings[number].locations)
        return list(dict.fromkeys(name for name in named if name is not None))

    def to_json(self) -> dict[str, Any]:
        """All findings."""
        return {
            **super().to_json(),
            "is_looking": self.suspects.state == "running",
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
                    "features": self.features(number),
                }
                for number, finding in enumerate(self.findings)
            ],
        }


class DuplicateJob(BackgroundJob):
    """Records with the same content, over all splits; labels and keys are no content."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.opened = opened
        self.groups: list[list[Place]] = []
        self.count = 0  # of all groups
        self.extra = 0  # records beyond the first of each group

    def work(self) -> None:
        """Hash the contents of all records and compare the hashes."""
        parts = list(self.opened.parts.values())
        content = self.opened.content
        if not content.compared:
            raise BushelError("there is nothing in the records but labels and keys")
        _refuse_too_many(parts)
        found = [_hashes(part, content.left_out, self) for part in parts]
        owners = np.repeat(np.arange(len(parts)), [len(rows) for _, rows in found])
        hashes, rows = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        self._group(hashes, owners, rows)

    def _group(self, hashes: Hashes, owners: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        same = (hashes[order][1:] == hashes[order][:-1]).all(axis=1)
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
        left_out = sorted(self.opened.content.left_out) if self.state == "done" else []
        return {**super().to_json(), "groups": groups, "count": self.count, "extra": self.extra, "left_out": left_out}


class SharedJob(BackgroundJob):
    """Contents that are in two splits, of one dataset or of two."""

    def __init__(self, sides: Sequence[tuple[Opened, OpenedSplit]]) -> None:
        super().__init__()
        self._sides = sides
        self.count = 0
        self.pairs: list[tuple[int, int]] = []  # a record of each side

    def work(self) -> None:
        """Hash the contents of both sides and join them."""
        parts = [part for _, part in self._sides]
        _refuse_too_many(parts)
        left_out = {name for opened, _ in self._sides for name in opened.content.left_out}
        left_out |= set.symmetric_difference(*(set(part.schema.features) for part in parts))
        if not set(parts[0].schema.features) - left_out:
            raise BushelError("the two have no feature in common that is content")
        (one, left), (other, right) = (_hashes(part, left_out, self) for part in parts)
        pair = np.dtype([("hash", np.uint64), ("check", np.uint64)])
        pairs = [np.ascontiguousarray(side).view(pair).ravel() for side in (one, other)]
        shared, at, there = np.intersect1d(pairs[0], pairs[1], return_indices=True)
        self.count = len(shared)
        self.pairs = list(zip(left[at[:50]].tolist(), right[there[:50]].tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """How many, and the first of them."""
        return {**super().to_json(), "count": self.count, "pairs": self.pairs[:12]}


def _refuse_too_many(parts: Sequence[OpenedSplit]) -> None:
    if (total := sum(map(len, parts))) > _MOST_COMPARED:
        raise BushelError(f"contents of {total:,} records are too many to compare here: run bushel check")


def _hashes(part: OpenedSplit, left_out: Iterable[str], job: BackgroundJob) -> tuple[Hashes, NDArray[np.int64]]:
    """The hashes of the contents of records, and the number of each record in the split."""
    hashes, rows = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
    for first, shard in part.each_shard():
        for begin, found in content_hashes(shard.paths[0], left_out):
            is_intact = found.any(axis=1)
            hashes.append(found[is_intact])
            rows.append(first + begin + np.flatnonzero(is_intact))
            job.progress(job.done + len(found), max(job.of, job.done + len(found), len(part)))
    return np.concatenate(hashes), np.concatenate(rows)


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
        names = telling_features(self.opened.account, self.opened.content)
        places, labels, rows = self._read(names)
        classes = Counter(labels)
        if len(labels) < MIN_RECORDS:
            raise BushelError(f"{len(labels)} records with a label and content are too few to compare")
        if not 2 <= len(classes) <= MAX_CLASSES or 2 * len(classes) > len(labels):
            raise BushelError(
                f"{self.opened.label!r} has {len(classes):,} values in {len(labels):,} records: not classes"
            )
        blocks = blocks_of(rows, names)
        if not blocks:
            raise BushelError("there is no content that can be compared: images, sounds, texts or numbers")
        self.by, self.compared = list(blocks), len(labels)
        known, codes = np.unique(np.array(labels), return_inverse=True)
        self._judge(places, known, count_votes(scaled(blocks.values()), codes.astype(np.int64)))

    def _read(self, names: Sequence[str]) -> tuple[list[Place], list[str], list[dict[str, Any]]]:
        """Records spread over all splits: where they are, their labels, and their contents as numbers."""
        parts, account = self.opened.parts, self.opened.account
        total = sum(map(len, parts.values()))
        places, labels, rows = [], [], []
        for name, part in parts.items():
            count = min(len(part), max(1, COMPARED * len(part) // max(1, total)))
            for row in np.unique(np.linspace(0, len(part) - 1, count).astype(np.int64)).tolist() if len(part) else ():
                values = part.record(row).values
                self.progress(self.done + 1, min(total, COMPARED))
                label = self.opened.class_of(values.get(self.opened.label))
                if label is None:
                    continue
                places.append((name, row))
                labels.append(label)
                rows.append(numbers_of(values, names, account))
        return places, labels, rows

    def _judge(self, places: list[Place], known: Any, votes: Votes) -> None:
        found, of = find_suspects(votes), votes.nearest.shape[1]
        self.agreement = found.agreement
        for at, meant, share in zip(found.rows.tolist(), found.meant.tolist(), found.share.tolist(), strict=True):
            alike = [other for other in votes.nearest[at].tolist() if votes.codes[other] == meant][:3]
            self.suspects.append(
                {
                    "split": places[at][0],
                    "row": places[at][1],
                    "label": str(known[votes.codes[at]]),
                    "meant": str(known[meant]),
                    "votes": round(share * of),
                    "of": of,
                    "neighbours": [{"split": places[other][0], "row": places[other][1]} for other in alike],
                }
            )

    def groups(self, most: int) -> list[list[Place]]:
        """The surest suspects, each with the neighbours that contradict it."""
        return [[(one["split"], one["row"]) for one in (each, *each["neighbours"])] for each in self.suspects[:most]]

    def rows(self, split: str) -> list[int]:
        """The suspected records of a split, the surest first."""
        return [one["row"] for one in self.suspects if one["split"] == split]

    def to_json(self) -> dict[str, Any]:
        """The surest of them."""
        counts = Counter(one["split"] for one in self.suspects)
        facts = {"count": len(self.suspects), "compared": self.compared, "agreement": self.agreement, "by": self.by}
        return {**super().to_json(), **facts, "splits": dict(counts), "suspects": self.suspects[:_SHOWN]}
