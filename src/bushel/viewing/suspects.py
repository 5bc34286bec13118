"""Labels that are probably wrong: records whose nearest neighbours, by content, nearly all have one other label."""

from __future__ import annotations

import io
import wave
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelError
from bushel.viewing.findings import Job, content_of
from bushel.viewing.opened import Opened
from bushel.viewing.showing import CannotShow, picture_of

__all__ = ["SuspectJob"]

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


class SuspectJob(Job):
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
