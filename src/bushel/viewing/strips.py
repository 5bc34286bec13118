"""Which records show a dataset at first sight: some of each class, and the features that say most about a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn
from bushel.errors import BushelError
from bushel.viewing.opened import Opened, OpenedSplit

__all__ = ["Face", "Strip", "choose_strips", "face_of"]

_MEDIA = ("image", "frames", "mask", "series", "audio", "tokens", "embedding", "array")
_SNIPPET = 40  # characters of a text that is more than one more column of a table
_COLUMNS = 8  # of a record that is shown as a row
_LOOKED_AT = 16  # records that say how long texts are
_OF_CLASS = 8  # records of one class
_CLASSES = 12  # that have a strip
_WITHOUT_CLASSES = 16  # records, where there are no classes
_MOST_CLASSES = 500
_PASSES = (64, 256, 1024)  # records read to find some of each class; the next only if one was missed
_MOST_BYTES = 32 << 20  # read for that


@dataclass(frozen=True)
class Face:
    """The features that a record is shown by: one that is looked at or read, or some columns of a row."""

    form: str  # tiles, rows
    names: tuple[str, ...]


@dataclass(frozen=True)
class Strip:
    """Some records of one class; the class is empty where there are none."""

    name: str
    rows: tuple[int, ...]


def face_of(part: OpenedSplit, roles: Mapping[str, str]) -> Face:
    """Choose what a record is shown by: a picture or a sound, else its longest text, else the first columns."""
    by_role = {role: [name for name in roles if roles[name] == role] for role in {*roles.values()}}
    for role in ("image", "frames"):
        if names := by_role.get(role):
            return Face("tiles", (names[0], *by_role.get("mask", ())))
    lengths = _text_lengths(part, by_role.get("text", ()))
    longest = max(lengths, key=lambda name: lengths[name], default="")
    if longest and lengths[longest] >= _SNIPPET:
        return Face("tiles", (longest,))
    for role in _MEDIA:
        if names := by_role.get(role):
            return Face("tiles", (names[0],))
    columns = [name for name, role in roles.items() if role not in ("label", "bytes")] or list(roles)
    return Face("rows", tuple(columns[:_COLUMNS]))


def _text_lengths(part: OpenedSplit, names: Sequence[str]) -> dict[str, float]:
    records = part.records(range(min(len(part), _LOOKED_AT))) if names else []
    return {name: float(np.mean([_length(record.values.get(name)) for record in records] or [0])) for name in names}


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def choose_strips(opened: Opened, part: OpenedSplit) -> tuple[list[Strip], int]:
    """Some records of each class of a split, spread over it, and how many classes were seen.

    Only as many records are read as it takes to see each known class often enough.
    """
    found: dict[str, list[int]] = {}
    times: dict[str, int] = {}
    expected = set(opened.classes)
    for rows in _passes(part):
        for row, value in zip(rows, _labels(part, rows, opened.label), strict=True):
            name = opened.class_of(value)
            if name is not None:
                times[name] = times.get(name, 0) + 1
                found.setdefault(name, []).append(row)
        if expected and set(times) <= expected and all(times.get(name, 0) >= _OF_CLASS for name in expected):
            break
        expected |= set(times)
    if not times or 2 * len(times) > sum(times.values()) or len(times) > _MOST_CLASSES:
        spread = np.unique(np.linspace(0, max(0, len(part) - 1), min(len(part), _WITHOUT_CLASSES)).astype(np.int64))
        return [Strip("", tuple(spread.tolist()))] if len(part) else [], 0
    order = {name: at for at, name in enumerate(opened.classes)}
    shown = sorted(times, key=lambda name: -times[name])[:_CLASSES]
    shown.sort(key=lambda name: (order.get(name, len(order)), name))
    return [Strip(name, tuple(sorted(found[name][:_OF_CLASS]))) for name in shown], len(times)


def _labels(part: OpenedSplit, rows: Sequence[int], label: str) -> list[Any]:
    """The labels of records; only this feature is decoded, unless a record is damaged or has no single label."""
    found: list[Any] = []
    for number, places in groupby(map(part.locate, rows), key=lambda place: place[0]):
        records = [record for _, record in places]
        try:
            column = part.shard(number).read(np.array(records, np.int64), [label])[label]
        except (BushelError, OSError, LookupError):
            column = None
        if isinstance(column, np.ndarray):
            found += column.tolist()
        elif isinstance(column, BytesColumn):
            found += list(column)
        else:
            found += [part.record_of(number, record, record).values.get(label) for record in records]
    return found


def _passes(part: OpenedSplit) -> Iterator[list[int]]:
    """Numbers of records, spread over the split; each pass has those between the last ones."""
    seen: set[int] = set()
    affordable = _MOST_BYTES * len(part) // max(1, part.size)
    for count in _PASSES:
        most = min(len(part), max(count if count == _PASSES[0] else 0, min(count, affordable)))
        rows = set(np.linspace(0, len(part) - 1, most).astype(np.int64).tolist()) - seen if most else set()
        seen |= rows
        yield sorted(rows)
