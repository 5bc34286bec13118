"""Sounds, looked at while the records are: whether they decode, how loud and how long they are, and at which rate."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.checking.collect.image_facts import SHOWN, Kinds
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import BYTES_KIND, INT_KIND, Schema
from bushel.data.sound_decoding import INT16, BadSound, Loudness, is_encoded_sound, sound_pieces
from bushel.records.files import Chunk
from bushel.records.scan import to_column

MAX_LENGTHS = 200_000
_PROBED = 64
_NAMES = re.compile(r"(?:^|[/_.-])(?:audio|sound|speech|voice|wave|waveform|wav|pcm)s?$", re.IGNORECASE)
_RATES = re.compile(r"(?:^|[/_.-])(?:rate|sample_?rate|sampling_?rate|sr)$", re.IGNORECASE)
_FEWEST = 256  # numbers in a record that may be a sound
_BEYOND = 1.5  # floats above it are not samples from -1 to 1


class FoundSounds(NamedTuple):
    """Features that hold sound, with the dtype and the channels of raw samples (None: encoded, or numbers)."""

    features: dict[str, tuple[str, int] | None]
    rate: str | None  # the feature that says samples per second


def find_sounds(facts: list[dict[str, Any]], schema: Schema | None, chunk: Chunk | None) -> FoundSounds:
    """Tell sounds from a schema, from names, and from the first bytes of values."""
    known = {fact["name"]: fact for fact in facts if not fact["sequence"]}
    found: dict[str, tuple[str, int] | None] = {}
    for name, fact in known.items():
        feature = schema.features.get(name) if schema is not None else None
        if feature is not None and feature.encoding == "raw":
            inner = feature.shape[1:] if feature.shape is not None and len(feature.shape) else None
            if _NAMES.search(name) and feature.dtype in ("int16", "float32") and inner in ((), (2,)):
                found[name] = (feature.dtype, 2 if inner else 1)
        elif fact["kinds"][BYTES_KIND]:
            if chunk is not None and not fact["text"] and _begins_as_sound(name, chunk):
                found[name] = None
        elif _NAMES.search(name) and fact["max_count"] >= _FEWEST and _is_flat(feature):
            found[name] = None
    rates = [n for n, f in known.items() if f["kinds"][INT_KIND] and f["max_count"] == 1 and _RATES.search(n)]
    return FoundSounds(found, rates[0] if found and len(rates) == 1 else None)


def _is_flat(feature: Any) -> bool:
    """Whether a feature may be samples; a spectrogram has bands."""
    return feature is None or feature.shape is None or len(feature.shape) == 1 or feature.shape[1:] == (2,)


def _begins_as_sound(name: str, chunk: Chunk) -> bool:
    columns, _, _ = _native.decode(chunk.memory, chunk.extents[:_PROBED], [(name, False, BYTES_KIND)], False, 1)
    values = [data for _, data in _rows(to_column(columns[0])) if isinstance(data, bytes)]
    return bool(values) and sum(map(is_encoded_sound, values)) * 2 > len(values)


@dataclass
class Sounds:
    """What was heard of one feature of sounds or of several."""

    examined: int = 0
    is_decoded: bool = True  # False: PyAV is not installed, and encoded sounds were not looked at
    undecodable: Kinds = field(default_factory=Kinds)
    rates: Kinds = field(default_factory=Kinds)
    contradicted: Kinds = field(default_factory=Kinds)  # rates of files, with what the record says
    channels: Kinds = field(default_factory=Kinds)
    silent: Kinds = field(default_factory=Kinds)
    clipped: Kinds = field(default_factory=Kinds)
    lengths: list[float] = field(default_factory=list)  # in seconds, or in moments where no rate is known
    is_timed: bool = True
    shortest: list[tuple[float, Place]] = field(default_factory=list)
    longest: list[tuple[float, Place]] = field(default_factory=list)

    def take_length(self, length: float, place: Place) -> None:
        """Keep a length, and where it is if it is one of the shortest or longest."""
        if len(self.lengths) < MAX_LENGTHS:
            self.lengths.append(length)
        self.shortest = heapq.nsmallest(SHOWN, [*self.shortest, (length, place)])
        self.longest = heapq.nlargest(SHOWN, [*self.longest, (length, place)])

    def merge(self, other: Sounds) -> None:
        """Add what another heard."""
        self.examined += other.examined
        self.is_decoded &= other.is_decoded
        self.is_timed &= other.is_timed
        for name in ("undecodable", "rates", "contradicted", "channels", "silent", "clipped"):
            getattr(self, name).merge(getattr(other, name))
        self.lengths += other.lengths[: MAX_LENGTHS - len(self.lengths)]
        self.shortest = heapq.nsmallest(SHOWN, [*self.shortest, *other.shortest])
        self.longest = heapq.nlargest(SHOWN, [*self.longest, *other.longest])


class _Heard(NamedTuple):
    error: str | None = None
    moments: int = 0
    channels: int = 1
    rate: int | None = None
    is_silent: bool = False
    is_clipped: bool = False


class SoundReader:
    """Listens to the sounds of chunks, one at a time: memory holds a million moments of each."""

    def __init__(self, found: FoundSounds) -> None:
        self.found = found
        self.sounds = Sounds()
        try:
            import av  # noqa: F401
        except ImportError:
            self.sounds.is_decoded = False
        self._pool = ThreadPoolExecutor(2)

    def add(self, chunk: Chunk, file: FileFacts, bad: set[int]) -> None:
        """Listen to the sounds of some records."""
        names = [*self.found.features, *([self.found.rate] if self.found.rate is not None else [])]
        if not self.found.features:
            return
        decoded, _, _ = _native.decode(chunk.memory, chunk.extents, [(name, False, 0) for name in names], False, 1)
        columns = dict(zip(names, map(to_column, decoded), strict=True))
        rates = dict(_rows(columns[self.found.rate])) if self.found.rate is not None else {}
        for name, raw in self.found.features.items():
            values = [(row, value) for row, value in _rows(columns[name]) if row not in bad]
            heard = self._pool.map(lambda pair, raw=raw: self._listen(pair[1], raw), values)
            for (row, _), one in zip(values, heard, strict=True):
                if one is not None:
                    self._take(one, (file.number, chunk.first + row), _whole(rates.get(row)))

    def _listen(self, value: Any, raw: tuple[str, int] | None) -> _Heard | None:
        if raw is not None:
            dtype, channels = raw
            return _of_numbers(np.frombuffer(value, dtype).reshape(-1, channels)) if isinstance(value, bytes) else None
        if isinstance(value, bytes):
            return _of_file(value) if self.sounds.is_decoded else None
        return _of_numbers(np.asarray(value).reshape(-1, 1))

    def _take(self, heard: _Heard, place: Place, declared: int | None) -> None:
        sounds = self.sounds
        sounds.examined += 1
        if heard.error is not None:
            sounds.undecodable.add(heard.error, place)
            return
        rate = heard.rate or declared
        if rate is not None:
            sounds.rates.add(rate, place)
        if heard.rate is not None and declared is not None and heard.rate != declared:
            sounds.contradicted.add((heard.rate, declared), place)
        sounds.channels.add(heard.channels, place)
        sounds.is_timed &= rate is not None
        sounds.take_length(heard.moments / rate if rate else float(heard.moments), place)
        if heard.is_silent:
            sounds.silent.add("silent", place)
        elif heard.is_clipped:
            sounds.clipped.add("clipped", place)

    def result(self) -> Sounds:
        """All that was heard."""
        self._pool.shutdown()
        return self.sounds


def _of_file(data: bytes) -> _Heard:
    loudness, moments = Loudness(), 0
    try:
        header, pieces = sound_pieces(data)
        for piece in pieces:
            loudness.add(piece)
            moments += len(piece)
    except BadSound as error:
        return _Heard(error=str(error))
    return _Heard(None, moments, header.channels, header.rate, loudness.is_silent, loudness.is_clipped)


def _of_numbers(samples: NDArray[Any]) -> _Heard:
    """Samples as floats from -1 to 1, or as integers in the range of 16, 24 or 32 bits."""
    loudness = Loudness()
    floats = samples.astype(np.float32)
    loudness.add(floats / np.float32(_full_range(samples, float(np.abs(floats).max(initial=0.0)))))
    return _Heard(None, len(samples), samples.shape[1], None, loudness.is_silent, loudness.is_clipped)


def _full_range(samples: NDArray[Any], highest: float) -> float:
    if samples.dtype.kind == "f" and highest <= _BEYOND:
        return 1.0
    if samples.dtype.kind == "f" and not (samples == np.rint(samples)).all():
        return 2 * highest  # scaled by something that is not known: neither silent nor clipped
    return next((full for full in (INT16, 2.0**23) if highest <= full), 2.0**31)


def _whole(value: Any) -> int | None:
    return int(np.asarray(value).reshape(-1)[0]) if value is not None and np.size(value) else None


def _rows(column: Any) -> Iterator[tuple[int, Any]]:
    """The value of each row that has one: the bytes, or the numbers."""
    for row in range(len(column)):
        if isinstance(column, BytesColumn):
            yield row, column[row]
        elif isinstance(column, Ragged):
            if column.present is not None and not column.present[row]:
                continue
            values = column.values[int(column.row_splits[row]) : int(column.row_splits[row + 1])]
            if isinstance(values, BytesColumn):
                if len(values):
                    yield row, values[0]
            else:
                yield row, values
        else:
            yield row, np.asarray(column[row])
