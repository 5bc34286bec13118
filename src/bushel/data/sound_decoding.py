"""Sound as bytes and as samples: decoding and resampling by PyAV."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import missing_package

INT16 = 32768.0


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
        stream = container.streams.audio[0]
        seconds = 0.0
        if stream.duration is not None and stream.time_base is not None:
            seconds = float(stream.duration * stream.time_base)
        elif container.duration:
            seconds = container.duration / 1_000_000
        return SoundHeader(int(stream.rate or 0), int(stream.channels), max(0.0, seconds))


def decode_sound(data: bytes | Path, *, rate: int | None = None, channels: int | None = None) -> Sound:
    """Decode a whole file, resampled to a rate, mixed to one or two channels. Raises `BadSound`."""
    av = load_av()
    with _open(data) as container:
        stream = container.streams.audio[0]
        file_rate, file_channels = int(stream.rate or 0), int(stream.channels)
        if not file_rate or not file_channels:
            raise BadSound("it says neither rate nor channels")
        layout = {1: "mono", 2: "stereo"}.get(channels or 0, stream.layout.name)
        resampler = av.AudioResampler(format="fltp", layout=layout, rate=rate or file_rate)
        pieces: list[NDArray[np.float32]] = []
        try:
            for frame in container.decode(stream):
                frame.pts = None  # what is missing between packets is not filled
                pieces += [part.to_ndarray() for part in resampler.resample(frame)]
            pieces += [part.to_ndarray() for part in resampler.resample(None)]
        except (av.FFmpegError, ValueError) as error:
            raise BadSound(f"it cannot be decoded: {_words(error)}") from None
    if not pieces or not sum(piece.shape[1] for piece in pieces):
        raise BadSound("there are no samples in it")
    return Sound(np.ascontiguousarray(np.concatenate(pieces, axis=1).T), rate or file_rate, file_rate, file_channels)


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
