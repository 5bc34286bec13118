"""Video files by PyAV: when frames are shown, found without decoding, and decoding the requested frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import missing_package
from bushel.storage import local_copy

__all__ = ["BadVideo", "Timeline", "frames_at", "read_timeline"]

MICROSECONDS = 1_000_000
_EARLY = 0.05  # share of its length by which a video may end early


class BadVideo(Exception):
    """Why a video cannot be used."""


@dataclass(frozen=True)
class Timeline:
    """When each frame is shown, in microseconds from the first, in order; and its timestamp in the stream."""

    times: NDArray[np.int64]
    stamps: NDArray[np.int64]
    duration: int  # until the last frame is over, in microseconds
    ends_early: bool = False


def load_av() -> Any:
    """PyAV, if it is installed."""
    try:
        import av
    except ImportError:
        raise missing_package("PyAV", extra="video", purpose="reading video") from None
    av.logging.set_level(av.logging.PANIC)
    return av


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The file and its first video stream."""
    av = load_av()
    here = local_copy(path)
    try:
        container = av.open(str(here), metadata_errors="ignore")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise BadVideo(f"it cannot be opened: {_words(error)}") from None
    with container:
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        if not streams:
            kinds = sorted({stream.type for stream in container.streams})
            held = f"only {' and '.join(kinds)}" if kinds else "nothing"
            raise BadVideo(f"there is no video in it, {held}")
        yield container, streams[0]


def _is_cover(stream: Any) -> bool:
    """Whether it is the cover of a music file."""
    return "attached_pic" in str(getattr(stream, "disposition", "")).lower()


def _words(error: BaseException) -> str:
    text = str(getattr(error, "strerror", "") or error)
    return text[:1].lower() + text[1:]


def read_timeline(path: Path) -> Timeline:
    """When frames are shown, from packets alone; if those do not say, from decoded frames."""
    av = load_av()
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
        told = container.duration
    if any(stamp is None for stamp in stamps):
        stamps, lasts = _decoded_stamps(path)
    if not stamps:
        raise BadVideo("there are no frames in it")
    order = np.argsort(np.array(stamps, np.int64), kind="stable")
    ordered = np.unique(np.array(stamps, np.int64))
    scale = float(base) * MICROSECONDS
    times = np.rint((ordered - ordered[0]) * scale).astype(np.int64)
    last = lasts[int(order[-1])] * scale or (float(np.median(np.diff(times))) if len(times) > 1 else 0.0)
    duration = int(times[-1] + last)
    ends_early = told is not None and told > 0 and duration < told * (1 - _EARLY) - MICROSECONDS
    return Timeline(times, ordered, max(duration, 1), ends_early)


def _decoded_stamps(path: Path) -> tuple[list[Any], list[int]]:
    av = load_av()
    stamps: list[Any] = []
    with _opened(path) as (container, stream):
        try:
            for number, frame in enumerate(container.decode(stream)):
                stamps.append(frame.pts if frame.pts is not None else number)
        except av.FFmpegError:
            pass
    return stamps, [0] * len(stamps)


def frames_at(path: Path, stamps: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The frames with these timestamps, upright, as RGB, one at a time; those that cannot be decoded are left out."""
    av = load_av()
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
