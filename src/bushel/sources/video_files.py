"""Clips of video files, by PyAV: frames are found without decoding, and only those of a clip are decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.schema import Feature, Schema
from bushel.data.sound_decoding import load_av
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.pixels.codecs import Encoded, Fit, Kernel, encode_pixels, moved, place
from bushel.sources.folders import ClassFolder, FolderSource
from bushel.sources.protocol import Block, Listing, Reads, Refused, check_values, recipe_table
from bushel.storage import AnyPath, as_path, local_copy, name_for_library

__all__ = ["VideoSource", "video"]

MICROSECONDS = 1_000_000
_EARLY = 0.05  # share of its length by which a video may end early
_BLOCK_BYTES = 8 << 20


class _BadVideo(Exception):
    """Why a video cannot be used."""


@dataclass(frozen=True)
class _Timeline:
    """When each frame is shown, in microseconds from the first, in order; and its timestamp in the stream."""

    times: NDArray[np.int64]
    stamps: NDArray[np.int64]
    duration: int  # until the last frame is over, in microseconds
    ends_early: bool = False


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The file and its first video stream."""
    av = load_av("video")
    here = local_copy(path)
    try:
        container = av.open(f"file:{name_for_library(here)}", metadata_errors="ignore")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise _BadVideo(f"it cannot be opened: {_words(error)}") from None
    with container:
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        if not streams:
            kinds = sorted({stream.type for stream in container.streams})
            held = f"only {' and '.join(kinds)}" if kinds else "nothing"
            raise _BadVideo(f"there is no video in it, {held}")
        yield container, streams[0]


def _is_cover(stream: Any) -> bool:
    """Whether it is the cover of a music file."""
    return "attached_pic" in str(getattr(stream, "disposition", "")).lower()


def _words(error: BaseException) -> str:
    text = str(getattr(error, "strerror", "") or error)
    return text[:1].lower() + text[1:]


def _read_timeline(path: Path) -> _Timeline:
    """When frames are shown, from packets alone; if those do not say, from decoded frames."""
    av = load_av("video")
    with _opened(path) as (container, stream):
        stamps, lasts = [], []
        try:
            for packet in container.demux(stream):
                if packet.size and not packet.is_discard:
                    stamps.append(packet.pts)
                    lasts.append(packet.duration or 0)
        except av.FFmpegError:
            pass  # a broken tail: what comes before it is usable
        base = stream.time_base
        stated = container.duration
    if any(stamp is None for stamp in stamps):
        stamps, lasts = _decoded_stamps(path)
    if not stamps:
        raise _BadVideo("there are no frames in it")
    order = np.argsort(np.array(stamps, np.int64), kind="stable")
    ordered = np.unique(np.array(stamps, np.int64))
    scale = float(base) * MICROSECONDS
    times = np.rint((ordered - ordered[0]) * scale).astype(np.int64)
    last = lasts[int(order[-1])] * scale or (float(np.median(np.diff(times))) if len(times) > 1 else 0.0)
    duration = int(times[-1] + last)
    ends_early = stated is not None and stated > 0 and duration < stated * (1 - _EARLY) - MICROSECONDS
    return _Timeline(times, ordered, max(duration, 1), ends_early)


def _decoded_stamps(path: Path) -> tuple[list[Any], list[int]]:
    av = load_av("video")
    stamps: list[Any] = []
    with _opened(path) as (container, stream):
        try:
            for number, frame in enumerate(container.decode(stream)):
                stamps.append(frame.pts if frame.pts is not None else number)
        except av.FFmpegError:
            pass
    return stamps, [0] * len(stamps)


def _frames_at(path: Path, stamps: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The frames with these timestamps, upright, as RGB, one at a time; those that cannot be decoded are left out."""
    av = load_av("video")
    wanted = set(stamps.tolist())
    last = max(wanted)
    with _opened(path) as (container, stream):
        stream.thread_count = 1
        counted = 0
        try:
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.FFmpegError:
                    continue  # the decoder goes on with the next packet that it understands
                for frame in frames:
                    stamp = frame.pts if frame.pts is not None else counted
                    counted += 1
                    if stamp in wanted and not frame.is_corrupt:
                        wanted.discard(stamp)
                        yield stamp, _upright(frame)
                    if stamp >= last and not wanted:
                        return
        except av.FFmpegError:
            return


def _upright(frame: Any) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
    turns = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


def video(
    path: AnyPath,
    *,
    frames: Annotated[int, "Frames per clip"] = 16,
    stride: Annotated[int | None, "Frames or rows from one clip or window to the next (default: its length)"] = None,
    fps: Annotated[float | None, "Frames to take per second of video (default: all)"] = None,
    count: Annotated[int | None, "Make each file one sample of this many frames, evenly spread"] = None,
    height: Annotated[int | None, "Height to resize frames to"] = None,
    width: Annotated[int | None, "Width to resize frames to"] = None,
    fit: Annotated[Fit, "How frames are fitted into height and width"] = "stretch",
    kernel: Annotated[Kernel, "How frames are interpolated"] = "bilinear",
    form: Annotated[Encoded, "Image format of frames"] = "jpeg",
    quality: Annotated[int, "Quality of JPEG and WebP, from 1 to 100"] = 90,
    sequence: Annotated[bool, "Write SequenceExamples, one step per frame"] = True,
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    helpers: Helpers = None,
) -> VideoSource:
    """Take samples from the video files below a folder, or from one file: clips of `frames` frames.

    All frames are taken, or those shown at `fps` times per second; a clip begins every `stride` of them (its length,
    if not given). With `count`, a file is one sample of that many frames, evenly spread. `height` and `width` resize,
    as `fit` and `kernel` say; each frame is encoded as `form`. A sample is a SequenceExample, or an Example if not
    `sequence`; a clip of one frame is an Example with one image. Folders give classes and splits, as for images.
    """
    given = locals()
    check_values(video, given)
    choice = _Choice(frames, frames if stride is None else stride, fps, count)
    picture = _Picture(height, width, fit, kernel, form, quality)
    load_av("video")
    resolved = {
        "frames": frames if count is None else None,
        "stride": choice.stride if choice.stride != frames else None,
        "sequence": sequence or choice.length == 1,
    }
    recipe = recipe_table(video, str(path), given | resolved, always=("frames", "form", "quality"))
    source = VideoSource(
        path=str(path),
        class_folder=class_folder,
        recipe=recipe,
        choice=choice,
        picture=picture,
        is_sequence=sequence and choice.length > 1,
    )
    source.look(helpers)
    if not len(source.files):
        raise FileProblem(path, "there are no videos in this folder")
    return source


@dataclass(frozen=True)
class _Choice:
    """Which frames make up which clips."""

    frames: int
    stride: int
    fps: float | None
    count: int | None

    def __post_init__(self) -> None:
        for name in ("frames", "stride", "count"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if self.fps is not None and not self.fps > 0:
            raise ValueError(f"fps must be above 0, got {self.fps}")
        if self.fps is not None and self.count is not None:
            raise ValueError("fps and count cannot both be given")

    @property
    def length(self) -> int:
        """The number of frames per sample."""
        return self.count or self.frames

    def clips(self, line: _Timeline) -> NDArray[np.int64]:
        """The frames of each clip, by their place in the timeline. Raises `_BadVideo` if there is no clip."""
        if self.count is not None:
            at = (np.arange(self.count) + 0.5) * line.duration / self.count
            return _shown(line, at)[None]
        chosen = np.arange(len(line.times))
        if self.fps is not None:
            chosen = _shown(line, np.arange(0, line.duration, MICROSECONDS / self.fps))
        starts = np.arange(0, len(chosen) - self.frames + 1, self.stride)
        if not len(starts):
            rate = f" at {self.fps:g} per second" if self.fps else ""
            raise _BadVideo(f"it has {len(chosen)} frames{rate}, fewer than the {self.frames} of a clip")
        return np.asarray(chosen[starts[:, None] + np.arange(self.frames)])


def _shown(line: _Timeline, at: NDArray[Any]) -> NDArray[np.int64]:
    """The frames that are shown at these times."""
    return np.maximum(np.searchsorted(line.times, at + 1, "right") - 1, 0)  # times are rounded to microseconds


@dataclass(frozen=True)
class _Picture:
    """How a frame is resized and encoded."""

    height: int | None
    width: int | None
    fit: Fit
    kernel: Kernel
    form: Encoded
    quality: int
    antialias = True
    fill = 0

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError("height and width must be given both, or neither")
        if self.height is not None and self.width is not None and min(self.height, self.width) < 1:
            raise ValueError(f"height and width must be at least 1, got {self.height} and {self.width}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality must be from 1 to 100, got {self.quality}")

    def encode(self, pixels: NDArray[np.uint8]) -> _Frame:
        """Resize and encode."""
        if self.height is not None and self.width is not None:
            move = place((pixels.shape[0], pixels.shape[1]), self.height, self.width, self.fit)
            pixels = moved(pixels, move, np.dtype(np.uint8), self)
        return _Frame(encode_pixels(pixels, self.form, self.quality), pixels.shape[0], pixels.shape[1])


class _Frame(NamedTuple):
    data: bytes
    height: int
    width: int


@lru_cache(maxsize=64)
def _timeline(path: str, size: int, time: int) -> _Timeline | str:  # noqa: ARG001 (they identify a changed file)
    """The timeline of a file, or why there is none; used for listing and for reading."""
    try:
        return _read_timeline(as_path(path))
    except _BadVideo as error:
        return str(error)


@dataclass(eq=False, kw_only=True)
class VideoSource(FolderSource):
    """Clips of video files; reads in sequence, a file per partition."""

    reads: ClassVar[Reads] = "sequence"
    takes = "video"
    group = "video"
    choice: _Choice
    picture: _Picture
    is_sequence: bool

    def partitions(self) -> int:
        """One per file."""
        return len(self.files)

    def schema(self) -> Schema:
        """The frames, when each is shown, their size, the label and the key."""
        length = self.choice.length
        features = {name: Feature(dtype="int64") for name in ("image/height", "image/width")}
        if length == 1:
            features |= {"image": Feature(dtype="bytes", encoding="image"), "image/timestamp": Feature(dtype="int64")}
        elif self.is_sequence:
            features["image"] = Feature(dtype="bytes", encoding="image", sequence=True)
            features["image/timestamp"] = Feature(dtype="int64", sequence=True)
        else:
            features["image"] = Feature(dtype="bytes", shape=(length,))
            features["image/timestamp"] = Feature(dtype="int64", shape=(length,))
        if "label" in self.listed:
            features["label"] = Feature(dtype="str")
        features["key"] = Feature(dtype="str")
        return Schema(features=features, record="sequence_example" if self.is_sequence else "example")

    def _plan(self, partition: int) -> tuple[_Timeline, NDArray[np.int64]] | str:
        """The clips of a file, or why there are none."""
        path = str(self.file_at(partition))
        line = _timeline(path, int(self.files.sizes[partition]), int(self.files.times[partition]))
        if isinstance(line, str):
            return line
        try:
            return line, self.choice.clips(line)
        except _BadVideo as error:
            return str(error)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are a path and the second at which a clip begins; a file that cannot be used is one row."""
        name = self.key_at(partition)
        found = self._plan(partition)
        keys, counted = [name], {}
        if not isinstance(found, str):
            line, clips = found
            keys = [name + f"@{line.times[clip[0]] / MICROSECONDS:.3f}".encode() for clip in clips]
            keys = [name] if self.choice.count is not None else _unlike(keys)
            counted = {"videos that end before their header says": 1} if line.ends_early else {}
        return self.list_cut(partition, BytesColumn.of(keys), columns, counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All clips of a file, in order. A frame is freed when its last clip is complete."""
        if rows is not None:
            raise ValueError("rows must be None: a video is read in sequence")
        found = self._plan(partition)
        if isinstance(found, str):
            yield Block(np.empty(0, np.int64), self._columns(partition, []), [Refused(0, "decode", found)])
            return
        line, clips = found
        made: list[tuple[int, Sequence[_Frame]]] = []
        refused: list[Refused] = []
        size = 0
        for row, frames, gone in self._clips(partition, line, clips):
            if gone is not None:
                why = f"the frame at {line.times[gone] / MICROSECONDS:.3f} s cannot be decoded"
                refused.append(Refused(row, "decode", why))
            else:
                made.append((row, frames))
                size += sum(len(frame.data) for frame in frames)
            if size > _BLOCK_BYTES:
                yield self._block(partition, line, clips, made, refused)
                made, refused, size = [], [], 0
        yield self._block(partition, line, clips, made, refused)

    def _clips(
        self, partition: int, line: _Timeline, clips: NDArray[np.int64]
    ) -> Iterator[tuple[int, Sequence[_Frame], int | None]]:
        """Each clip once its last frame has come: its number, its frames, and a frame that never came."""
        path = self.file_at(partition)
        places = np.unique(clips)
        held: dict[int, _Frame] = {}
        waiting = deque(range(len(clips)))
        place_of = {int(stamp): int(at) for stamp, at in zip(line.stamps[places], places, strict=True)}
        for stamp, pixels in _frames_at(path, line.stamps[places]):
            at = place_of[stamp]
            held[at] = self.picture.encode(pixels)
            while waiting and clips[waiting[0], -1] < at:
                yield self._clip(waiting.popleft(), clips, held)
            first = clips[waiting[0], 0] if waiting else at
            for old in [kept for kept in held if kept < first]:
                del held[old]
        while waiting:
            yield self._clip(waiting.popleft(), clips, held)

    def _clip(
        self, row: int, clips: NDArray[np.int64], held: dict[int, _Frame]
    ) -> tuple[int, Sequence[_Frame], int | None]:
        gone = next((int(at) for at in clips[row] if int(at) not in held), None)
        return row, [] if gone is not None else [held[int(at)] for at in clips[row]], gone

    def _block(
        self,
        partition: int,
        line: _Timeline,
        clips: NDArray[np.int64],
        made: Sequence[tuple[int, Any]],
        refused: Sequence[Refused],
    ) -> Block:
        rows = np.array([row for row, _ in made], np.int64)
        columns = self._columns(partition, [frames for _, frames in made])
        stamps = line.times[clips[rows]]
        columns["image/timestamp"] = self._steps(stamps.reshape(-1), len(rows))
        keys = self.list(partition, []).keys
        columns["key"] = keys.take(rows)
        return Block(rows, columns, [*refused])

    def _steps(self, values: Column, count: int) -> Column:
        """One value per frame, as a sequence, a list, or alone."""
        length = self.choice.length
        if length == 1:
            return values
        if isinstance(values, np.ndarray) and not self.is_sequence:
            return values.reshape(count, length)
        return Ragged(values, np.arange(count + 1) * length)

    def _columns(self, partition: int, clips: Sequence[Sequence[_Frame]]) -> dict[str, Column]:
        frames = [frame for clip in clips for frame in clip]
        columns: dict[str, Column] = {
            "image": self._steps(BytesColumn.of([frame.data for frame in frames]), len(clips)),
            "image/timestamp": self._steps(np.empty(0, np.int64), 0),
            "image/height": np.array([clip[0].height for clip in clips], np.int64),
            "image/width": np.array([clip[0].width for clip in clips], np.int64),
            "key": BytesColumn.of([]),
        }
        if "label" in self.listed:
            picked = take(self.listed["label"], np.full(len(clips), partition))
            columns["label"] = picked
        return columns

    def locate(self, partition: int, row: int) -> str:
        """The file, and where in it the clip begins."""
        path = str(as_path(self.root) / self.files.paths[partition].decode(errors="backslashreplace"))
        key = self.list(partition, []).keys[row].decode(errors="backslashreplace")
        at = key.rpartition("@")[2] if "@" in key and self.choice.count is None else ""
        return f"{path}: clip at {at} s" if at and key != Path(path).name else path


def _unlike(keys: list[bytes]) -> list[bytes]:
    """Unique keys: clips that begin in the same millisecond are distinguished by number."""
    if len(set(keys)) == len(keys):
        return keys
    return [key + b"#%d" % number for number, key in enumerate(keys)]
