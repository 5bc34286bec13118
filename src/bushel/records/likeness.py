"""Which records are the same, and whose label records like them contradict: one account, for `check` and for the page.

Two records are the same if all of their content is. Content is what a record shows: not its label, and not what only
keeps the books, such as a key, a row number or the split that a record was put into.

Records are alike if their contents are near each other as numbers: pixels of a small picture, counts of words, the
spectrum of a sound, or the numbers themselves.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.roles import Account, Kind
from bushel.data.schema import Schema
from bushel.data.sound_decoding import BadSound, as_floats, is_encoded_sound, sound_pieces
from bushel.parallel import map_in_threads
from bushel.pixels.codecs import decode_pixels
from bushel.pixels.headers import BadImage
from bushel.records.files import open_file
from bushel.records.record_roles import first_samples

__all__ = [
    "COMPARED",
    "MAX_CLASSES",
    "MIN_RECORDS",
    "NEIGHBOURS",
    "ComparedContent",
    "Suspects",
    "Votes",
    "blocks_of",
    "content_hashes",
    "content_of",
    "count_votes",
    "find_suspects",
    "numbers_of",
    "scaled",
    "telling_features",
]

Floats: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.int64]

COMPARED = 4_000  # records at most, spread over all of them
MIN_RECORDS = 50
MAX_CLASSES = 200
NEIGHBOURS = 10
SURE = 0.8  # share of the neighbours that have one other label
RECOGNISED = 0.7  # share of a class whose neighbours know it, for its labels to be judged by them

_BOOKKEEPING: tuple[Kind, ...] = ("id", "key", "row number", "address", "date or time", "split", "name of the label")
_SMALL: tuple[Kind, ...] = ("category", "number", "count", "constant", "about an image", "empty", "boxes", "keypoints")
_NOT_COMPARED: tuple[Kind, ...] = ("mask", "boxes", "keypoints", "bytes", "empty", "constant", "about an image")
_ENOUGH = 20  # records of a split that must agree in a value, to call it the value of the split
_SIDE = 12  # of an image, as it is compared
_DECODED = 48  # pixels on a side of an image that are decoded
_MOST_PIXELS = 64_000_000
_WORDS = 256  # numbers that a text becomes
_BANDS = 64  # numbers that a sound becomes
_HEARD = 1 << 18  # samples of a sound
_FRAME = 2048  # of them, whose frequencies are found together
_NUMBERS = 128  # of a long list
_NARROW = 12  # numbers of a feature up to which each is scaled by itself
_TILE, _TILE_ROWS = 1 << 18, 64  # multiplications from which on OpenBLAS uses threads; rows of a tile
_AT_A_TIME = 500
_BROKEN = (BadImage, BadSound, ValueError, TypeError, OverflowError, OSError, EOFError, SyntaxError, MemoryError)


class ComparedContent(msgspec.Struct, frozen=True):
    """The features that make records the same, and those that are left out, with what they are."""

    compared: tuple[str, ...]
    left_out: dict[str, str]


def content_of(
    account: Account,
    names: Iterable[str],
    *,
    schema: Schema | None = None,
    splits: Mapping[str, Sequence[Path]] | None = None,
) -> ComparedContent:
    """What of some features is content. `splits` are the files of each split: a value that only says which is none."""
    left_out: dict[str, str] = {}
    for name in names:
        kind = account.kind_of(name)
        if name == account.label:
            left_out[name] = "label"
        elif kind in _BOOKKEEPING or kind == "group":
            left_out[name] = kind
    for name in _values_of_splits(splits or {}, schema):
        left_out.setdefault(name, "split")
    return ComparedContent(tuple(name for name in names if name not in left_out), left_out)


def _values_of_splits(splits: Mapping[str, Sequence[Path]], schema: Schema | None) -> set[str]:
    """Features that have one value throughout each split, and not the same one in all of them."""
    if len(splits) < 2:
        return set()
    seen: dict[str, list[set[Any]]] = {}
    for paths in splits.values():
        samples = first_samples(paths, schema)
        if len(samples) < _ENOUGH:
            continue
        for name in set.intersection(*(set(sample) for sample in samples)):
            values = [sample[name] for sample in samples]
            is_plain = all(isinstance(value, int | float | str | bytes) for value in values)
            seen.setdefault(name, []).append(set(values) if is_plain else set(range(2)))
    return {
        name
        for name, values in seen.items()
        if len(values) > 1 and all(len(own) == 1 for own in values) and len(set.union(*values)) > 1
    }


def content_hashes(path: Path, without: Iterable[str]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Two numbers for the content of each record, all features but some: 0 and 0 if it is damaged or has none.

    They come for some records at a time, with the number of the first.
    """
    left_out = list(without)
    for chunk in open_file(path).chunks(on_fault=lambda _: None):
        profile = _native.Profile([], left_out, True, False, True)
        faults, _, hashes = profile.add(chunk.memory, chunk.extents, 0, chunk.first)
        for row, _, _ in faults:
            hashes[row] = 0
        yield chunk.first, np.asarray(hashes, np.uint64)


def telling_features(account: Account, content: ComparedContent) -> list[str]:
    """The features by which records are alike: all that can be compared; only large ones, if there are such."""
    could = [name for name in content.compared if account.kind_of(name) not in (None, *_NOT_COMPARED)]
    large = [name for name in could if account.kind_of(name) not in _SMALL]
    return large or could


def numbers_of(sample: Mapping[str, Any], names: Iterable[str], account: Account) -> dict[str, Floats]:
    """The features of a record as numbers; those that are missing or broken are left out."""
    found = {}
    for name in names:
        if (value := sample.get(name)) is None:
            continue
        try:
            found[name] = _vector(value, account.kind_of(name))
        except (*_BROKEN, ImportError):  # the package that decodes it may not be installed
            continue
    return found


def _vector(value: Any, kind: Kind | None) -> Floats:
    if isinstance(value, int | float):
        return np.array([value], np.float32)
    if kind == "frames" and len(value):
        value = value[0]
    if kind in ("image", "frames"):
        return _pixels(value)
    if kind == "sound":
        return _spectrum(value)
    inner = value[0] if isinstance(value, list) and value else value
    if kind == "tokens" or isinstance(inner, str | bytes):
        return _words(value, kind)
    array = np.ravel(np.asarray(value, np.float32))
    return array if len(array) <= _NUMBERS else array[np.linspace(0, len(array) - 1, _NUMBERS).astype(int)]


def _pixels(value: Any) -> Floats:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bytes):
        pixels = decode_pixels(value, at_least=(_DECODED, _DECODED), most_pixels=_MOST_PIXELS)
        return _averaged(pixels.astype(np.float32) / np.float32(255))
    array = np.nan_to_num(np.asarray(value, np.float32))
    if array.ndim not in (2, 3) or not array.size:
        raise ValueError(f"an image must have rows, columns and perhaps channels; got the shape {array.shape}")
    return _averaged(array if array.ndim == 3 else array[..., None])


def _averaged(pixels: Floats) -> Floats:
    """Means over a few fields of an image, in three colours."""
    for axis in (0, 1):
        size = pixels.shape[axis]
        if size < _SIDE:
            pixels = np.take(pixels, np.arange(_SIDE) * size // _SIDE, axis=axis)
            continue
        edges = np.linspace(0, size, _SIDE + 1).astype(np.int64)
        counts = np.diff(edges).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        pixels = np.asarray(np.add.reduceat(pixels, edges[:-1], axis=axis) / counts, np.float32)
    colours = pixels[..., [0, 0, 0]] if pixels.shape[2] < 3 else pixels[..., :3]
    return np.asarray(colours.ravel(), np.float32)


def _words(value: Any, kind: Kind | None) -> Floats:
    """Counts of words, each in one of some places: the same text gives the same numbers everywhere."""
    if kind == "tokens":
        words = [str(token).encode() for token in np.ravel(value).tolist()]
    else:
        texts = [
            one.encode() if isinstance(one, str) else one for one in (value if isinstance(value, list) else [value])
        ]
        words = b" ".join(texts).lower().split()
    found = np.zeros(_WORDS, np.float32)
    np.add.at(found, [zlib.crc32(word) % _WORDS for word in words], 1.0)
    found = np.sqrt(found)
    return np.asarray(found / (np.linalg.norm(found) or 1.0), np.float32)


def _spectrum(value: Any) -> Floats:
    """How loud a sound is in some bands, on average over its beginning."""
    if isinstance(value, bytes) and is_encoded_sound(value):
        samples = _heard(value)
    else:
        samples = np.ravel(np.asarray(value, np.float32))[:_HEARD]
    frames = np.zeros((max(1, -(-len(samples) // _FRAME)), _FRAME), np.float32)
    frames.reshape(-1)[: len(samples)] = np.nan_to_num(samples)
    strength = np.abs(np.fft.rfft(frames, axis=1))[:, 1:].mean(axis=0)
    return np.asarray(np.log1p(strength.reshape(_BANDS, -1).mean(axis=1)), np.float32)


def _heard(data: bytes) -> Floats:
    """The beginning of a sound, in one channel."""
    pieces: list[Floats] = [np.zeros(0, np.float32)]
    for piece in sound_pieces(data)[1]:
        samples = as_floats(piece)
        pieces.append(samples.reshape(len(samples), -1).mean(axis=1))
        if sum(map(len, pieces)) >= _HEARD:
            break
    return np.concatenate(pieces)[:_HEARD]


def blocks_of(rows: Sequence[Mapping[str, Floats]], names: Iterable[str]) -> dict[str, Floats]:
    """Records as a matrix for each feature that nearly all have in one size; zeros stand for what is missing."""
    blocks = {}
    for name in names:
        sizes = Counter(len(row[name]) for row in rows if name in row)
        if sizes and (most := sizes.most_common(1)[0])[1] >= 0.9 * len(rows) and most[0]:
            nothing = np.zeros(most[0], np.float32)
            found = [row.get(name, nothing) for row in rows]
            blocks[name] = np.nan_to_num(np.stack([one if len(one) == most[0] else nothing for one in found]))
    return blocks


def scaled(blocks: Iterable[Floats]) -> Floats:
    """Contents beside each other, each feature of the same weight; single numbers without regard to a few far ones."""
    made = []
    for given in blocks:
        block = given.astype(np.float64)  # the square of a large float32 is beyond its range
        if block.shape[1] < _NARROW:
            low, middle, high = np.quantile(block, (0.1, 0.5, 0.9), axis=0)
            spread = np.where(high > low, high - low, block.std(axis=0))
        else:
            middle, spread = block.mean(axis=0), np.full(block.shape[1], block.std())
        even = (block - middle) / np.where(spread > 0, spread, 1)
        made.append(np.clip(even, -4, 4) / np.sqrt(block.shape[1]))
    return np.asarray(np.concatenate(made, axis=1), np.float32)


@dataclass(frozen=True)
class Votes:
    """What neighbours say of some records: of all files, of the record's own file, and of others.

    Each row counts the labels of the nearest records, by their codes.
    """

    codes: Codes
    all: Codes
    own: Codes
    other: Codes
    nearest: Codes  # rows, the nearest first

    def agreement(self, votes: Codes) -> NDArray[np.bool_]:
        """Whether most neighbours of a record have its label; False where there are none."""
        return np.asarray((votes.argmax(axis=1) == self.codes) & (votes.sum(axis=1) > 0))


def count_votes(values: Floats, codes: Codes, files: Codes | None = None) -> Votes:
    """The labels of the nearest records, by Euclidean distance. `files` are the file that each is of."""
    count, classes = len(values), int(codes.max()) + 1
    files = np.zeros(count, np.int64) if files is None else files
    every, own, other = (np.zeros((count, classes), np.int64) for _ in range(3))
    near = np.zeros((count, min(NEIGHBOURS, count - 1)), np.int64)
    squares = (values**2).sum(axis=1)

    def count_some(first: int) -> None:
        some = np.arange(first, min(first + _AT_A_TIME, count))
        distances = squares[None, :] - 2 * _products(values[some], values)
        distances[np.arange(len(some)), some] = np.inf
        near[some] = _vote(every, some, distances, codes)
        is_own = files[some][:, None] == files[None, :]
        if not is_own.all():
            _vote(own, some, np.where(is_own, distances, np.inf), codes)
            _vote(other, some, np.where(is_own, np.inf, distances), codes)

    for _ in map_in_threads(count_some, range(0, count, _AT_A_TIME)):
        pass
    return Votes(codes, every, own, other, near)


def _vote(votes: Codes, some: NDArray[np.int64], distances: Floats, codes: Codes) -> Codes:
    """Count the labels of the nearest; returns their rows, the nearest first."""
    most = min(NEIGHBOURS, distances.shape[1] - 1)
    nearest = np.argpartition(distances, most, axis=1)[:, :most]
    far = np.take_along_axis(distances, nearest, axis=1)
    row, at = np.nonzero(np.isfinite(far))
    np.add.at(votes, (some[row], codes[nearest[row, at]]), 1)
    found: Codes = np.take_along_axis(nearest, np.argsort(far, axis=1, kind="stable"), axis=1).astype(np.int64)
    return found


def _products(some: Floats, others: Floats) -> Floats:
    """`some @ others.T`, in tiles so small that BLAS wakes no threads: they would spin for longer than this takes."""
    out = np.empty((len(some), len(others)), np.float32)
    width = max(1, _TILE // (_TILE_ROWS * some.shape[1]))
    for row in range(0, len(some), _TILE_ROWS):
        for column in range(0, len(others), width):
            tile = some[row : row + _TILE_ROWS] @ others[column : column + width].T
            out[row : row + _TILE_ROWS, column : column + width] = tile
    return out


@dataclass(frozen=True)
class Suspects:
    """Records whose label neighbours contradict, the surest first."""

    rows: Codes
    meant: Codes  # the code that neighbours have, of each of them
    share: NDArray[np.float64]  # of the neighbours that have it
    agreement: float  # share of all records whose neighbours have their label


def find_suspects(votes: Votes) -> Suspects:
    """Records most of whose neighbours have one other label, in classes that neighbours know well."""
    agrees, codes = votes.agreement(votes.all), votes.codes
    top = votes.all.argmax(axis=1)
    share = votes.all.max(axis=1) / max(1, votes.nearest.shape[1])
    known = [bool(own.any()) and bool(agrees[own].mean() >= RECOGNISED) for own in _by_class(votes)]
    recognised = np.array(known, bool)
    wrong = np.flatnonzero(~agrees & (share >= SURE) & recognised[codes] & recognised[top])
    wrong = wrong[np.argsort(-share[wrong], kind="stable")]
    return Suspects(wrong, top[wrong], share[wrong], float(agrees.mean()))


def _by_class(votes: Votes) -> Iterator[NDArray[np.bool_]]:
    return (votes.codes == code for code in range(votes.all.shape[1]))
