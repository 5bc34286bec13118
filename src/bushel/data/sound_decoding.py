"""Sound as bytes and as samples: decoding and resampling by PyAV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import missing_package

INT16 = 32768.0
_PIECE = 1 << 20  # moments
_SILENT = 1e-4  # of the full range: 80 dB below it
_FULL = 1 - 2.5 / INT16  # the end of the range, which 16 bits may miss by two steps
_STEEP = 1 - 1 / 1024  # what a sample beside a peak that was cut off stays below
_FLAT, _TOPS, _CLIPPED = 3, 3, 1e-3  # samples that make a flat top; how many tops, and what share, are too many


class BadSound(Exception):
    """Why a sound cannot be used."""


@dataclass(frozen=True)
class Sound:
    """Samples from -1 to 1, a row per moment and a column per channel; and what the file said of itself."""

    samples: NDArray[np.float32]
    rate: int  # of the samples
    file_rate: int
    file_channels: int


@dataclass(frozen=True)
class SoundHeader:
    """What a file says without being decoded."""

    rate: int
    channels: int
    seconds: float  # 0 if it does not say


@dataclass
class Loudness:
    """How loud a sound is, and how often its peaks are cut off, taken piece by piece."""

    peak: float = 0.0
    samples: int = 0
    flat: list[int] = field(default_factory=list)  # lengths of flat tops at the end of the range

    def add(self, samples: NDArray[np.float32]) -> None:
        """Take moments from -1 to 1, a column per channel."""
        loudness = np.abs(samples)
        self.samples += samples.size
        loudest = float(loudness.max(initial=0.0))
        self.peak = max(self.peak, loudest)
        if loudest >= _FULL:
            for channel in loudness.T:
                self.flat += _flat_tops(channel)

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to hear."""
        return self.peak < _SILENT

    @property
    def is_clipped(self) -> bool:
        """Whether it was recorded too loud. A peak that just reaches the end of the range is none that was cut off."""
        return len(self.flat) >= _TOPS and sum(self.flat) > _CLIPPED * self.samples


def _flat_tops(loudness: NDArray[np.float32]) -> list[int]:
    """Lengths of the runs at the end of the range that are as flat and steep as only clipping makes them."""
    is_full = np.concatenate(([False], loudness >= _FULL, [False]))
    edges = np.flatnonzero(is_full[1:] != is_full[:-1])
    starts, ends = edges[::2], edges[1::2]
    beside = np.concatenate(([1.0], loudness, [1.0]))
    is_cut = (ends - starts >= _FLAT) & (np.minimum(beside[starts], beside[ends + 1]) < _STEEP)
    found: list[int] = (ends - starts)[is_cut].tolist()
    return found


def is_encoded_sound(data: bytes) -> bool:
    """Whether bytes begin as a sound file does: WAV, FLAC, Ogg, MP3, AIFF or AU."""
    if data[:4] in (b"RIFF", b"RF64", b"FORM"):
        return data[8:12] in (b"WAVE", b"AIFF", b"AIFC")
    is_mp3 = data[:3] == b"ID3" or (len(data) > 3 and data[0] == 0xFF and data[1] in (0xFB, 0xFA, 0xF3, 0xF2))
    return is_mp3 or data[:4] in (b"fLaC", b"OggS", b".snd")


def load_av() -> Any:
    """PyAV, if it is installed."""
    try:
        import av
    except ImportError:
        raise missing_package("PyAV", extra="audio", purpose="reading audio") from None
    av.logging.set_level(av.logging.PANIC)
    return av


def _open(data: bytes | Path) -> Any:
    av = load_av()
    try:
        container = av.open(io.BytesIO(data) if isinstance(data, bytes) else str(data), metadata_errors="ignore")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise BadSound(f"it cannot be opened: {_words(error)}") from None
    if not container.streams.audio:
        container.close()
        raise BadSound("there is no sound in it")
    return container


def _words(error: BaseException) -> str:
    text = str(getattr(error, "strerror", "") or error)
    return text[:1].lower() + text[1:]


def sound_header(data: bytes | Path) -> SoundHeader:
    """Rate, channels and length, from the header alone."""
    with _open(data) as container:
        return _header_of(container)


def _header_of(container: Any) -> SoundHeader:
    stream = container.streams.audio[0]
    seconds = 0.0
    if stream.duration is not None and stream.time_base is not None:
        seconds = float(stream.duration * stream.time_base)
    elif container.duration:
        seconds = container.duration / 1_000_000
    return SoundHeader(int(stream.rate or 0), int(stream.channels), max(0.0, seconds))


def decode_sound(data: bytes | Path, *, rate: int | None = None, channels: int | None = None) -> Sound:
    """Decode a whole file, resampled to a rate, mixed to one or two channels. Raises `BadSound`."""
    header, pieces = sound_pieces(data, rate=rate, channels=channels)
    parts = list(pieces)
    samples = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return Sound(samples, rate or header.rate, header.rate, header.channels)


def sound_pieces(
    data: bytes | Path, *, rate: int | None = None, channels: int | None = None
) -> tuple[SoundHeader, Iterator[NDArray[np.float32]]]:
    """What a file says, and its samples as `decode_sound` has them, about a million moments at a time."""
    container = _open(data)
    header = _header_of(container)
    if not header.rate or not header.channels:
        container.close()
        raise BadSound("it says neither rate nor channels")
    return header, _gathered(_frames(container, rate or header.rate, channels))


def _frames(container: Any, rate: int, channels: int | None) -> Iterator[NDArray[np.float32]]:
    """Samples as ffmpeg gives them: a row per channel."""
    av = load_av()
    with container:
        stream = container.streams.audio[0]
        layout = {1: "mono", 2: "stereo"}.get(channels or 0, stream.layout.name)
        resampler = av.AudioResampler(format="fltp", layout=layout, rate=rate)
        try:
            for frame in container.decode(stream):
                frame.pts = None  # what is missing between packets is not filled
                yield from (part.to_ndarray() for part in resampler.resample(frame))
            yield from (part.to_ndarray() for part in resampler.resample(None))
        except (av.FFmpegError, ValueError) as error:
            raise BadSound(f"it cannot be decoded: {_words(error)}") from None


def _gathered(frames: Iterator[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    held: list[NDArray[np.float32]] = []
    size, is_empty = 0, True
    for frame in frames:
        held.append(frame)
        size += frame.shape[1]
        if size >= _PIECE:
            yield np.ascontiguousarray(np.concatenate(held, axis=1).T)
            held, size, is_empty = [], 0, False
    if size:
        yield np.ascontiguousarray(np.concatenate(held, axis=1).T)
    elif is_empty:
        raise BadSound("there are no samples in it")


def as_floats(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Samples from -1 to 1, from 16-bit integers or floats."""
    if samples.dtype == np.int16:
        return (samples / INT16).astype(np.float32)
    return np.asarray(samples, np.float32)


def as_int16(samples: NDArray[np.float32]) -> tuple[NDArray[np.int16], int]:
    """Samples as 16-bit integers, and how many were beyond their range."""
    scaled = np.rint(samples * INT16)
    beyond = int(((scaled > INT16 - 1) | (scaled < -INT16)).sum())
    return np.clip(scaled, -INT16, INT16 - 1).astype(np.int16), beyond
