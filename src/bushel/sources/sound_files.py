"""Sound files in class folders: whole, or cut into clips of one length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, tee
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, splits_of, take
from bushel.data.schema import Feature, Schema
from bushel.data.sound_decoding import (
    BadSound,
    Loudness,
    Samples,
    Sound,
    as_floats,
    as_int16,
    decode_sound,
    load_av,
    plain_sound,
    sound_header,
)
from bushel.errors import FileProblem
from bushel.parallel import Helpers, map_in_threads
from bushel.sources.folders import ClassFolder, FolderSource, as_keys
from bushel.sources.protocol import Block, Listing, Reads, Refused, check_values, recipe_table
from bushel.storage import AnyPath, local_copy, read_named, read_together

__all__ = ["AudioSource", "audio"]

Store: TypeAlias = Literal["int16", "float32", "bytes"]
Edge: TypeAlias = Literal["pad", "drop"]
_FILES = 64  # per partition, if files are cut into clips
_BLOCK_BYTES = 1 << 20  # small, so that memory is reused
_BLOCK_ROWS = 256
_TOGETHER, _TOGETHER_BYTES = 32, 4 << 20  # files that one thread decodes at a time


def audio(
    path: AnyPath,
    *,
    rate: Annotated[int | None, "Samples per second to resample to (default: that of the first file)"] = None,
    channels: Annotated[int, "Channels to mix to: 1 or 2"] = 1,
    seconds: Annotated[float | None, "Length of a clip (default: files are taken whole)"] = None,
    stride: Annotated[float | None, "Seconds from one clip to the next (default: its length)"] = None,
    edge: Annotated[Edge, "What to do with the rest of a file that fills no clip"] = "pad",
    store: Annotated[Store, "How to store sound: samples of one type, or the bytes of the file"] = "int16",
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    helpers: Helpers = None,
) -> AudioSource:
    """Take samples from the sound files below a folder, or from one file: whole, or in clips of `seconds`.

    WAV, FLAC, MP3, OGG and what else ffmpeg decodes. Sound is resampled to one rate and mixed to mono, or to two
    channels. A clip begins every `stride` seconds; what is left at the end is padded with silence, or dropped
    (`edge="drop"`), and a file shorter than a clip is padded. `store="bytes"` keeps the file as it is, after decoding
    it to see whether that can be done. Folders give classes and splits, as for images.
    """
    given = locals()
    check_values(audio, given)
    load_av()
    if channels not in (1, 2):
        raise ValueError(f"channels must be 1 or 2, got {channels}")
    for name, value in (("rate", rate), ("seconds", seconds), ("stride", stride)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    if store == "bytes" and seconds is not None:
        raise ValueError("seconds must not be given with store='bytes', which keeps whole files")
    if stride is not None and seconds is None:
        raise ValueError("stride must come with seconds")
    source = AudioSource(
        path=str(path),
        class_folder=class_folder,
        recipe={},
        rate=rate or 0,
        channels=channels,
        seconds=seconds,
        stride=seconds if stride is None else stride,
        edge=edge,
        store=store,
    )
    source.look(helpers)
    if not len(source.files):
        raise FileProblem(path, "there are no sound files in this folder")
    source.rate = rate or source.first_rate()
    resolved = {"rate": source.rate if store != "bytes" else None}
    source.recipe = recipe_table(audio, str(path), given | resolved, always=("channels", "store"))
    return source


class _Clip(NamedTuple):
    """A file, and the first sample of a clip in it."""

    file: int
    first: int


@dataclass(eq=False, kw_only=True)
class AudioSource(FolderSource):
    """Samples from sound files: at random, one per file; in sequence, some files per partition, if they are cut."""

    takes = "audio"
    rate: int
    channels: int
    seconds: float | None
    stride: float | None
    edge: Edge
    store: Store
    decodes_in_threads: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("audio/rate", "audio/seconds")

    @property
    def reads(self) -> Reads:
        """At random, unless files are cut into clips."""
        return "random" if self.seconds is None else "sequence"

    @property
    def group(self) -> str | None:
        """Clips of one file stay in one split."""
        return None if self.seconds is None else "audio"

    @property
    def length(self) -> int | None:
        """Samples per clip."""
        return None if self.seconds is None else max(1, round(self.seconds * self.rate))

    def first_rate(self) -> int:
        """The rate of the first file that says one."""
        for row in range(len(self.files)):
            try:
                return sound_header(local_copy(self.file_at(row))).rate
            except BadSound:
                continue
        raise FileProblem(self.path, "none of its files can be opened as sound")

    def partitions(self) -> int:
        """One, or one per 64 files if they are cut into clips."""
        return 1 if self.seconds is None else -(-len(self.files) // _FILES)

    def schema(self) -> Schema:
        """The sound, its rate and length, the label and the key."""
        features = {"audio/rate": Feature(dtype="int64"), "audio/seconds": Feature(dtype="float32")}
        if self.store == "bytes":
            features["audio"] = Feature(dtype="bytes")
        else:
            inner = (2,) if self.channels == 2 else ()
            features["audio"] = Feature(dtype=self.store, shape=(self.length, *inner), encoding="raw")
        if "label" in self.listed:
            features["label"] = Feature(dtype="str")
        return Schema(features=features | {"key": Feature(dtype="str")})

    @cached_property
    def clips(self) -> list[NDArray[np.int64]]:
        """The first sample of each clip, by file, judging by the headers."""
        rows = range(len(self.files))
        return [starts for _, starts in map_in_threads(self._starts, rows)]

    def _starts(self, row: int) -> NDArray[np.int64]:
        assert self.length is not None
        assert self.stride is not None
        try:
            seconds = sound_header(local_copy(self.file_at(row))).seconds
        except (BadSound, OSError):
            return np.zeros(1, np.int64)  # one row, which is refused when it is read
        count = round(seconds * self.rate)
        stride = max(1, round(self.stride * self.rate))
        whole = 1 + max(0, (count - self.length)) // stride
        rest = self.edge == "pad" and (whole - 1) * stride + self.length < count
        return np.arange(whole + rest, dtype=np.int64) * stride

    def _files_of(self, partition: int) -> range:
        return range(partition * _FILES, min((partition + 1) * _FILES, len(self.files)))

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are paths, with the second at which a clip begins."""
        files = range(len(self.files)) if self.seconds is None else self._files_of(partition)
        rows = np.array(files, np.int64)
        keys = as_keys(self.files.paths.take(rows))
        if self.seconds is not None:
            starts = [self.clips[file] for file in files]
            paths = keys.to_list()
            rows = np.repeat(rows, [len(own) for own in starts])
            named = [
                path + (b"@%.3f" % (first / self.rate))
                for path, own in zip(paths, starts, strict=True)
                for first in own.tolist()
            ]
            keys = BytesColumn.of(named)
        there: dict[str, Column] = {name: take(column, rows) for name, column in self.listed.items()}
        there |= {"key": keys, "audio": as_keys(self.files.paths.take(rows))}
        counted = self.files.counted if partition == 0 else {}
        return Listing(keys, {name: there[name] for name in columns if name in there}, counted=dict(counted))

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The requested files, or all clips of a partition, in order."""
        if self.seconds is None:
            wanted = np.arange(len(self.files)) if rows is None else np.asarray(rows, np.int64)
            yield from self._blocks((int(row), _Clip(int(row), 0)) for row in wanted)
            return
        if rows is not None:
            raise ValueError("rows must be None: clips are read in sequence")
        files = self._files_of(partition)
        clips = (_Clip(file, int(first)) for file in files for first in self.clips[file])
        yield from self._blocks(enumerate(clips))

    def _blocks(self, clips: Iterator[tuple[int, _Clip]] | Any) -> Iterator[Block]:
        made = _Made()
        mine, theirs = tee(clips)
        decoded = self._decode_each(file for file, _ in groupby(clip.file for _, clip in theirs))
        held: tuple[int, Any] = (-1, None)  # the file that was decoded last
        for row, clip in mine:
            if held[0] != clip.file:
                held = next(decoded)
            made.add(row, clip, held[1], self)
            if made.size > _BLOCK_BYTES or len(made.rows) + len(made.refused) >= _BLOCK_ROWS:
                yield self._block(made)
                made = _Made()
        if made.rows or made.refused:
            yield self._block(made)

    def _decode_each(self, files: Iterator[int]) -> Iterator[tuple[int, Any]]:
        """Files with what each holds, some at a time, in threads."""
        for some, decoded in map_in_threads(self._decode_some, _in_portions(files, self.files.sizes)):
            yield from zip(some, decoded, strict=True)

    def _decode_some(self, files: Sequence[int]) -> Any:
        plain = self._plain(files)
        return [plain.get(file) or self._decoded(file) for file in files]

    def _plain(self, files: Sequence[int]) -> dict[int, Any]:
        """What those of the files hold that need no decoder."""
        rows = np.array(files)
        paths, sizes = self.files.paths.take(rows), np.ascontiguousarray(self.files.sizes[rows])
        if self.store == "bytes" or sizes.sum() > 2 * _TOGETHER_BYTES or not all(map(_is_wave, paths.to_list())):
            return {}
        data = read_together(self._folder, (paths.offsets, paths.data), sizes, threads=1)
        if data is None:  # they are in a store, or one cannot be read or has changed
            return {}
        ends = np.cumsum(sizes).tolist()
        found = {}
        for file, start, end in zip(files, [0, *ends], ends, strict=False):
            sound = plain_sound(memoryview(data)[start:end], rate=self.rate, channels=self.channels)
            if sound is not None:
                found[file] = (None, sound)
        return found

    def _decoded(self, file: int) -> Any:
        """What a file holds, or why it cannot be used."""
        try:
            path = local_copy(self.file_at(file))
            data = read_named(path) if self.store == "bytes" else b""
            rate = None if self.store == "bytes" else self.rate
            sound = decode_sound(path, rate=rate, channels=None if self.store == "bytes" else self.channels)
        except OSError as error:
            return ("read", (error.strerror or str(error)).lower())
        except BadSound as error:
            return ("decode", str(error))
        return data if self.store == "bytes" else None, sound

    def _block(self, made: _Made) -> Block:
        files = np.array([clip.file for clip in made.clips], np.int64)
        columns: dict[str, Column] = {
            "audio": self._column(made),
            "audio/rate": np.array(made.rates, np.int64),
            "audio/seconds": np.array(made.lengths, np.float32),
        }
        if "label" in self.listed:
            picked = take(self.listed["label"], files)
            present = None if not isinstance(picked, Ragged) else picked.present
            columns["label"] = picked.values if isinstance(picked, Ragged) and present is not None else picked
        paths = as_keys(self.files.paths.take(files)).to_list()
        clips = zip(paths, made.clips, strict=True)
        keys = [path if self.seconds is None else path + (b"@%.3f" % (one.first / self.rate)) for path, one in clips]
        columns["key"] = BytesColumn.of(keys)
        return Block(np.array(made.rows, np.int64), columns, made.refused, dict(made.counted))

    def _column(self, made: _Made) -> Column:
        if self.store == "bytes":
            return BytesColumn.of(made.values)
        inner = (2,) if self.channels == 2 else ()
        if not made.values:
            empty = np.empty((0, *([self.length] if self.length else []), *inner), self.store)
            return empty if self.length else Ragged(empty, np.zeros(1, np.int64))
        if self.length is not None:
            return np.stack(made.values)
        return Ragged(np.concatenate(made.values), splits_of([len(value) for value in made.values]))

    def has_label(self, file: int) -> bool:
        """Whether a file is in a class folder, if some are."""
        label = self.listed.get("label")
        return not isinstance(label, Ragged) or label.present is None or bool(label.present[file])

    def locate(self, partition: int, row: int) -> str:
        """The file, and where in it the clip begins."""
        if self.seconds is None:
            return str(self.file_at(row))
        key = self.list(partition, []).keys[row].decode(errors="backslashreplace")
        name, _, at = key.rpartition("@")
        return f"{self.root}/{name}: clip at {at} s"


def _in_portions(files: Iterator[int], sizes: NDArray[np.int64]) -> Iterator[list[int]]:
    """As many files at a time as memory should hold."""
    some: list[int] = []
    size = 0
    for file in files:
        some.append(file)
        size += int(sizes[file])
        if size > _TOGETHER_BYTES or len(some) == _TOGETHER:
            yield some
            some, size = [], 0
    if some:
        yield some


def _is_wave(name: bytes) -> bool:
    return name[-4:].lower() == b".wav"


class _Made:
    """The samples of one block, while it is being read."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.clips: list[_Clip] = []
        self.values: list[Any] = []
        self.rates: list[int] = []
        self.lengths: list[float] = []
        self.refused: list[Refused] = []
        self.counted: Counter[str] = Counter()
        self.size = 0

    def add(self, row: int, clip: _Clip, decoded: Any, source: AudioSource) -> None:
        """Add a clip of a decoded file, or why there is none."""
        if isinstance(decoded[0], str):
            self.refused.append(Refused(row, *decoded))
            return
        if not source.has_label(clip.file):
            self.refused.append(Refused(row, "read", "it is not in a class folder"))
            return
        data, sound = decoded
        self._note(sound, clip)
        value: Any = data
        seconds = len(sound.samples) / sound.rate
        if data is None:
            value, seconds = self._cut(sound.samples, clip, source)
        self.rows.append(row)
        self.clips.append(clip)
        self.values.append(value)
        self.rates.append(sound.rate)
        self.lengths.append(seconds)
        self.size += len(value) if isinstance(value, bytes) else value.nbytes
        if clip.first == 0 and data is None and sound.file_rate != sound.rate:
            self.counted["files resampled"] += 1
        if clip.first == 0 and data is None and sound.file_channels > source.channels:
            self.counted["files mixed to fewer channels"] += 1

    def _note(self, sound: Sound, clip: _Clip) -> None:
        """Count files that hold nothing to hear, or that were recorded too loud."""
        if clip.first:
            return
        loudness = Loudness()
        loudness.add(sound.samples)
        if loudness.is_silent:
            self.counted["silent files"] += 1
        elif loudness.is_clipped:
            self.counted["files recorded too loud, whose peaks are cut off"] += 1

    def _cut(self, samples: Samples, clip: _Clip, source: AudioSource) -> tuple[NDArray[Any], float]:
        length = source.length or len(samples)
        part = samples[clip.first : clip.first + length]
        seconds = len(part) / source.rate
        if len(part) < length:
            self.counted["clips padded with silence"] += 1
            part = np.concatenate([part, np.zeros((length - len(part), part.shape[1]), part.dtype)])
        part = part[:, 0] if source.channels == 1 else part
        if source.store == "float32":
            return as_floats(part), seconds
        stored, beyond = as_int16(part)
        if beyond:
            self.counted["samples beyond the range of 16 bits, which were clipped"] += beyond
        return stored, seconds
