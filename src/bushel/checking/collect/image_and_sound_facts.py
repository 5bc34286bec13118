"""Encoded images and sounds, examined while the records are read: headers, whether they decode, and what they hold."""

from __future__ import annotations

import heapq
import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import BYTES_KIND, INT_KIND, Schema
from bushel.data.sound_decoding import INT16, BadSound, Loudness, is_encoded_sound, sound_pieces
from bushel.data.splits import train_first
from bushel.pixels.headers import NativeCodec, read_headers
from bushel.records.files import Chunk
from bushel.records.scan import to_column

SIDE = 16
SHOWN = 5
MAX_THUMBNAILS = 200_000  # of 256 bytes each
MAX_BRIGHTNESS = 50_000  # of each split
BANDS = 6
MAX_DISTANCE = 5  # bits of 64; one of six bands is then the same
MAX_BUCKET = 400
MAX_DIFFERENCE = 6.0  # mean of 255, between thumbnails

TINY, BLANK, DARK, HUGE = 8, 2.0, 8.0, 64_000_000


@dataclass
class Kinds:
    """How often something was met, and where first."""

    counts: dict[Any, int] = field(default_factory=dict)
    places: dict[Any, list[Place]] = field(default_factory=dict)

    def add(self, what: Any, place: Place) -> None:
        """Count it."""
        self.counts[what] = self.counts.get(what, 0) + 1
        if len(shown := self.places.setdefault(what, [])) < SHOWN:
            shown.append(place)

    def merge(self, other: Kinds) -> None:
        """Add what another counted."""
        for what, count in other.counts.items():
            self.counts[what] = self.counts.get(what, 0) + count
            shown = self.places.setdefault(what, [])
            shown += other.places.get(what, [])[: SHOWN - len(shown)]


@dataclass
class NearPair:
    """Two images that are nearly the same."""

    one: Place
    other: Place
    distance: int
    difference: float


@dataclass
class Pictures:
    """What was seen of one image feature or of several."""

    examined: int = 0
    is_decoded: bool = True  # False: Pillow is not installed, and nothing was looked at
    undecodable: Kinds = field(default_factory=Kinds)
    formats: Kinds = field(default_factory=Kinds)
    orientations: Kinds = field(default_factory=Kinds)
    sizes: Kinds = field(default_factory=Kinds)
    modes: Kinds = field(default_factory=Kinds)
    looks: Kinds = field(default_factory=Kinds)  # blank, dark, tiny, huge
    in_alpha: Kinds = field(default_factory=Kinds)  # what is drawn in alpha alone, by mode
    brightness: dict[str, list[float]] = field(default_factory=dict)  # by split
    near: dict[tuple[str, str], list[NearPair]] = field(default_factory=dict)
    compared: int = 0
    means: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)  # of red, green and blue, by split

    def colours(self) -> dict[str, NDArray[np.float64]]:
        """Mean red, green and blue of images in colour, by split."""
        return {split: np.array(means) for split, means in self.means.items() if means}


class _Seen(NamedTuple):
    error: str | None = None
    format: str = ""
    size: tuple[int, int] = (0, 0)  # width and height, as stored
    mode: str = ""  # as Pillow calls it
    orientation: int = 1
    thumbnail: bytes = bytes(SIDE * SIDE)
    mean: float = 0.0
    deviation: float = 0.0
    colour: tuple[float, ...] = ()
    is_in_alpha: bool = False


class PictureReader:
    """Decodes the images of chunks, in the core and with Pillow. Without Pillow it says that nothing was decoded."""

    def __init__(self, features: list[str], masks: Sequence[str] = (), *, near: bool) -> None:
        self.features = features
        self.masks = masks  # which only have to be decodable: what they show is not for eyes
        self.near = near
        self.pictures = Pictures()
        self._thumbnails: list[bytes] = []
        self._places: list[Place] = []
        try:
            import PIL.Image  # noqa: F401
        except ImportError:
            self.pictures.is_decoded = False
        self._pool = ThreadPoolExecutor(2)

    def add(self, chunk: Chunk, file: FileFacts, bad: set[int]) -> None:
        """Look at the images of some records."""
        if not self.pictures.is_decoded:
            return
        names = [*self.features, *self.masks]
        wanted = [(name, False, BYTES_KIND) for name in names]
        columns, _, _ = _native.decode(chunk.memory, chunk.extents, wanted, False, 1)
        for name, column in zip(names, columns, strict=True):
            for row, seen in self._look(column, bad):
                if name not in self.masks or seen.error is not None:
                    self._take(seen, (file.number, chunk.first + row), file.split)

    def _look(self, column: dict[str, Any], bad: set[int]) -> Iterator[tuple[int, _Seen]]:
        if column["kind"] != BYTES_KIND:
            return
        images = BytesColumn(column["ends"], column["data"])
        splits = column["splits"].tolist() if column["splits"] is not None else None
        firsts = range(column["rows"]) if splits is None and column["width"] == 1 else (splits or [])
        values = [(row, firsts[row]) for row in range(column["rows"]) if row not in bad and len(firsts) > row]
        if splits is not None:
            values = [(row, at) for row, at in values if splits[row + 1] > at]
        known = _look_in_core(images, np.array([at for _, at in values], np.int64))
        left = [at for _, at in values if at not in known]
        known |= zip(left, self._pool.map(lambda at: _look_at(images[at]), left), strict=True)
        yield from ((row, known[at]) for row, at in values)

    def _take(self, seen: _Seen, place: Place, split: str) -> None:
        pictures = self.pictures
        pictures.examined += 1
        if seen.error is not None:
            pictures.undecodable.add(seen.error, place)
            return
        pictures.formats.add(seen.format, place)
        pictures.sizes.add(seen.size, place)
        pictures.modes.add(seen.mode, place)
        if seen.orientation != 1:
            pictures.orientations.add(seen.orientation, place)
        mean, deviation = seen.mean, seen.deviation
        if min(seen.size) < TINY:
            pictures.looks.add("tiny", place)
        elif seen.is_in_alpha:
            pictures.in_alpha.add(seen.mode, place)
        elif deviation < BLANK:
            pictures.looks.add("blank", place)
        elif mean < DARK:
            pictures.looks.add("dark", place)
        if seen.size[0] * seen.size[1] > HUGE:
            pictures.looks.add("far too large", place)
        if len(brightness := pictures.brightness.setdefault(split, [])) < MAX_BRIGHTNESS:
            brightness.append(mean)
            if seen.colour:
                pictures.means.setdefault(split, []).append(seen.colour)
        if self.near and deviation >= 4 * BLANK and len(self._places) < MAX_THUMBNAILS:
            self._thumbnails.append(seen.thumbnail)
            self._places.append(place)

    def taken(self) -> tuple[Pictures, list[bytes], list[Place]]:
        """What was seen of one file, for another process."""
        self._pool.shutdown()
        return self.pictures, self._thumbnails, self._places

    def merge(self, other: tuple[Pictures, list[bytes], list[Place]], split: str) -> None:
        """Take what was seen of one more file of a split."""
        pictures, (seen, thumbnails, places) = self.pictures, other
        pictures.examined += seen.examined
        pictures.is_decoded &= seen.is_decoded
        for name in ("undecodable", "formats", "orientations", "sizes", "modes", "looks", "in_alpha"):
            getattr(pictures, name).merge(getattr(seen, name))
        brightness = pictures.brightness.setdefault(split, [])
        if room := MAX_BRIGHTNESS - len(brightness):
            brightness += seen.brightness.get(split, [])[:room]
            if split in seen.means:
                pictures.means.setdefault(split, []).extend(seen.means[split])
        room = MAX_THUMBNAILS - len(self._places)
        self._thumbnails += thumbnails[:room]
        self._places += places[:room]

    def result(self, files: list[FileFacts]) -> Pictures:
        """All that was seen; near duplicates are joined here."""
        self._pool.shutdown()
        splits = [files[number].split for number, _ in self._places]
        if len(set(splits)) > 1:
            self.pictures.compared = len(self._places)
            thumbnails = np.frombuffer(b"".join(self._thumbnails), np.uint8).reshape(-1, SIDE, SIDE)
            for i, j, distance, difference in near_pairs(thumbnails, splits):
                pair = NearPair(self._places[i], self._places[j], distance, difference)
                self.pictures.near.setdefault((splits[i], splits[j]), []).append(pair)
        return self.pictures


_COLOURS = {0: "L", 2: "RGB"}  # of PNGs: those that the core decodes to what they are
_COLOUR_AT = 25  # the byte of a PNG that says which
_PAINTING = _native.Painting(kernel=_native.Kernel.AREA, upright=False, at_least=(4 * SIDE, 4 * SIDE))


def _look_in_core(images: BytesColumn, rows: NDArray[np.int64]) -> dict[int, _Seen]:
    """What the core sees of plain JPEGs and PNGs, by row; the others, and those at fault, are left to Pillow."""
    if not len(images.data):
        return {}
    headers = read_headers(images)
    colours = images.data[np.minimum(images.offsets[:-1] + _COLOUR_AT, len(images.data) - 1)]
    is_plain = headers.is_known & (headers.bits == 8) & (headers.is_animated == 0)
    is_plain &= (headers.codec == NativeCodec.JPEG) | np.isin(colours, list(_COLOURS))
    is_plain &= headers.height * headers.width <= 4 * HUGE
    rows = rows[is_plain[rows]]
    chosen = images if len(rows) == len(images) else images.take(rows)
    small = np.empty((len(rows), SIDE, SIDE, 3), np.uint8)
    refused = {at for at, _, _ in _native.decode_images(chosen.offsets, chosen.data, small, _PAINTING, threads=2)}
    grey = ((small @ _GREY + 0x8000) >> 16).astype(np.uint8).reshape(len(rows), SIDE * SIDE)
    means, deviations = grey.mean(axis=1).tolist(), grey.std(axis=1).tolist()
    by_channel = small.mean(axis=(1, 2)).tolist()
    found = {}
    for at, row in enumerate(rows.tolist()):
        if at in refused:
            continue
        is_jpeg, orientation = headers.codec[row] == NativeCodec.JPEG, int(headers.orientation[row])
        mode = ("L" if headers.channels[row] == 1 else "RGB") if is_jpeg else _COLOURS[int(colours[row])]
        size = (int(headers.width[row]), int(headers.height[row]))
        found[row] = _Seen(
            None,
            "jpeg" if is_jpeg else "png",
            size[::-1] if orientation >= 5 else size,
            mode,
            orientation,
            grey[at].tobytes(),
            means[at],
            deviations[at],
            tuple(by_channel[at]) if mode == "RGB" else (),
        )
    return found


_GREY = np.array([19595, 38470, 7471], np.int64)  # of 65536, as Pillow has it


def _look_at(data: bytes) -> _Seen:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            size, mode, format = image.size, image.mode, (image.format or "").lower()
            orientation = int(image.getexif().get(0x0112, 1) or 1)
            if size[0] * size[1] > 4 * HUGE:
                return _Seen(None, format, size, mode, orientation)
            image.draft("RGB", (4 * SIDE, 4 * SIDE))
            if mode.startswith(("I", "F")):
                return _look_at_levels(image, format)
            small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
            colour = tuple(np.asarray(small).reshape(-1, 3).mean(axis=0).tolist()) if mode == "RGB" else ()
            grey = small.convert("L")
            is_in_alpha = _is_in_alpha(image, grey)
            if is_in_alpha:
                grey = image.getchannel("A").resize((SIDE, SIDE), Image.Resampling.BOX)
            pixels = np.asarray(grey)
            looks = (pixels.tobytes(), float(pixels.mean()), float(pixels.std()))
            return _Seen(None, format, size, mode, orientation, *looks, colour, is_in_alpha)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        return _Seen(error=_short(error))


def _look_at_levels(image: Any, format: str) -> _Seen:
    """Look at 16 or 32 bits, by the levels that are used: depth may use a few of many."""
    from PIL import Image

    levels = np.asarray(image, np.float64)
    low, high = float(np.nanmin(levels)), float(np.nanmax(levels))
    shown = (levels - low) / (high - low or 1.0) * 255
    small = np.asarray(Image.fromarray(shown.astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BOX))
    deviation = max(float(small.std()), float(shown.std()))
    return _Seen(None, format, image.size, image.mode, 1, small.tobytes(), max(float(small.mean()), DARK), deviation)


def _is_in_alpha(image: Any, grey: Any) -> bool:
    """Whether the colours show nothing and the transparency shows something."""
    if "A" not in image.getbands() or float(np.asarray(grey).std()) >= BLANK:
        return False
    low, high = image.getchannel("A").getextrema()
    return bool(high - low > 16)


def _short(error: Exception) -> str:
    text = str(error).split("<")[0].strip().rstrip(":") or type(error).__name__
    return "".join(char for char in text if not char.isdigit()).replace("()", "").strip()


# Neighbouring blocks mostly agree, so each band takes blocks from all over the image.
_SCATTERED = np.random.default_rng(64).permutation(64)


def _perceptual_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """64 bits of each thumbnail: which of its 8 x 8 blocks are brighter than their median."""
    half = SIDE // 8
    blocks = thumbnails.reshape(-1, 8, half, 8, half).mean(axis=(2, 4)).reshape(len(thumbnails), 64)
    bits = blocks > np.median(blocks, axis=1, keepdims=True)
    return np.ascontiguousarray(np.packbits(bits[:, _SCATTERED], axis=1)).view(np.uint64).ravel()


def near_pairs(thumbnails: NDArray[np.uint8], splits: list[str]) -> Iterator[tuple[int, int, int, float]]:
    """Pairs from two splits whose hashes differ in few bits and whose thumbnails confirm it; train comes first."""
    hashes = _perceptual_hashes(thumbnails)
    seen: set[tuple[int, int]] = set()
    width = 64 // BANDS + 1
    for band in range(BANDS):
        keys = (hashes >> np.uint64(band * width)) & np.uint64((1 << min(width, 64 - band * width)) - 1)
        order = np.argsort(keys, kind="stable")
        for bucket in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if not 1 < len(bucket) <= MAX_BUCKET:
                continue
            for i, j in _pairs_of(bucket.tolist(), splits):
                if (i, j) in seen:
                    continue
                distance = (int(hashes[i]) ^ int(hashes[j])).bit_count()
                if distance > MAX_DISTANCE:
                    continue
                seen.add((i, j))
                difference = float(np.abs(thumbnails[i].astype(np.int16) - thumbnails[j].astype(np.int16)).mean())
                if difference <= MAX_DIFFERENCE:
                    yield i, j, distance, difference


def _pairs_of(bucket: list[int], splits: list[str]) -> Iterator[tuple[int, int]]:
    ranked = sorted(bucket, key=lambda i: (train_first(splits[i]), i))
    for a, i in enumerate(ranked):
        for j in ranked[a + 1 :]:
            if splits[i] != splits[j]:
                yield i, j


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
