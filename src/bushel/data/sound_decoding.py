"""Sound as bytes and as samples: decoding and resampling by PyAV."""

from __future__ import annotations

import importlib.util
import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.errors import missing_package
from bushel.storage import name_for_library, open_named
from bushel.storage.file_kinds import what_is

Samples: TypeAlias = NDArray[Any]  # int16, or float32 from -1 to 1; a row per moment and a column per channel

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
    """Samples, a row per moment; and what the file said of itself."""

    samples: Samples
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

    def add(self, samples: Samples) -> None:
        """Take some moments."""
        self.samples += samples.size
        highest, lowest = samples.max(initial=0), samples.min(initial=0)
        loudest = max(float(highest), -float(lowest)) / (INT16 if samples.dtype == np.int16 else 1.0)
        self.peak = max(self.peak, loudest)
        if loudest >= _FULL:
            for channel in np.abs(as_floats(samples)).T:
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


def load_av(what: Literal["audio", "video"] = "audio") -> Any:
    """PyAV, if it is installed."""
    try:
        import av
    except ImportError:
        raise missing_package("PyAV", extra=what, purpose=f"reading {what}") from None
    av.logging.set_level(av.logging.PANIC)
    return av


def _open(data: bytes | Path, head: bytes) -> Any:
    av = load_av()
    try:
        container = _opened(data, "ogg" if head[:4] == b"OggS" else None)  # the most usual form need not be guessed
    except (av.FFmpegError, OSError, ValueError) as error:
        if not isinstance(data, Path) or data.suffix.lower() != ".gsm":
            raise BadSound(_why_not(head, error)) from None
        try:
            container = _opened(data, "gsm")  # which has no header, and is not recognised if it is short
        except (av.FFmpegError, OSError, ValueError):
            raise BadSound(f"it cannot be opened: {_words(error)}") from None
    if not container.streams.audio:
        container.close()
        raise BadSound("there is no sound in it")
    if container.streams.audio[0].codec_context is None:
        container.close()
        raise BadSound("its sound is in a form that ffmpeg does not know")
    return container


def _why_not(head: bytes, error: BaseException) -> str:
    if not head:
        return "the file is empty: 0 bytes"
    what = what_is(head[:512])
    return (
        f"it is {what}, not sound" if what and not is_encoded_sound(head) else f"it cannot be opened: {_words(error)}"
    )


def _opened(data: bytes | Path, form: str | None = None) -> Any:
    file = io.BytesIO(data) if isinstance(data, bytes) else f"file:{name_for_library(data)}"
    return load_av().open(file, format=form, metadata_errors="ignore")


def _words(error: BaseException) -> str:
    text = str(getattr(error, "strerror", "") or error)
    return text[:1].lower() + text[1:]


def sound_header(data: bytes | Path) -> SoundHeader:
    """Rate, channels and length, from the header alone."""
    begun = _begin(data)
    if (plain := _plain_wave(begun)) is not None:
        return plain.header
    with _open(data, begun.head) as container:
        return _header_of(container)


def _header_of(container: Any) -> SoundHeader:
    stream = container.streams.audio[0]
    seconds, base = 0.0, stream.time_base
    if stream.duration is not None and base is not None:
        seconds = stream.duration * base.numerator / base.denominator
    elif container.duration:
        seconds = container.duration / 1_000_000
    return SoundHeader(int(stream.rate or 0), int(stream.channels), max(0.0, seconds))


def decode_sound(data: bytes | Path, *, rate: int | None = None, channels: int | None = None) -> Sound:
    """Decode a whole file, resampled to a rate, mixed to one or two channels. Raises `BadSound`."""
    header, pieces = sound_pieces(data, rate=rate, channels=channels)
    parts = list(pieces)
    samples = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return Sound(samples, rate or header.rate, header.rate, header.channels)


def plain_sound(data: memoryview, *, rate: int, channels: int) -> Sound | None:
    """The samples of a WAV file that needs no decoder and has this rate and these channels; None for any other."""
    plain = _plain_wave(_Begun(bytes(data[:_HEAD]), len(data), data))
    if plain is None or plain.moments > _PIECE or (plain.header.rate, plain.header.channels) != (rate, channels):
        return None
    return Sound(next(_of_wave(plain)), rate, rate, channels)


def sound_pieces(
    data: bytes | Path, *, rate: int | None = None, channels: int | None = None
) -> tuple[SoundHeader, Iterator[Samples]]:
    """What a file says, and its samples as `decode_sound` has them, about a million moments at a time."""
    is_flac = isinstance(data, Path) and data.suffix.lower() == ".flac"
    if is_flac and (found := _by_soundfile(data, rate, channels)) is not None:
        return found
    begun = _begin(data, is_whole=True)
    plain = _plain_wave(begun)
    if plain is not None and rate in (None, plain.header.rate) and channels in (None, plain.header.channels):
        return plain.header, _of_wave(plain)
    if begun.head[:4] in (b"fLaC", b"OggS"):
        if (found := _by_soundfile(data, rate, channels)) is not None:
            return found
        if _VORBIS in begun.head[:64] and not has_soundfile():  # others would leave out its first samples
            raise missing_package("soundfile", extra="audio", purpose="reading Ogg Vorbis")
    container = _open(data, begun.head)
    header = _header_of(container)
    if not header.rate or not header.channels:
        container.close()
        raise BadSound("it says neither rate nor channels")
    is_as_wanted = rate in (None, header.rate) and channels in (None, header.channels)
    frames = _frames(container) if is_as_wanted else _resampled(container, rate or header.rate, channels)
    return header, _not_empty(frames)


def has_soundfile() -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec("soundfile") is not None


def _by_soundfile(
    data: bytes | Path, rate: int | None, channels: int | None
) -> tuple[SoundHeader, Iterator[Samples]] | None:
    """FLAC of this rate and these channels, for which soundfile is faster than PyAV, and Vorbis; None for any other.

    ffmpeg leaves out the first block of a Vorbis file, 128 samples or more, and decodes beyond its end.
    """
    try:
        import soundfile

        opened = soundfile.SoundFile(io.BytesIO(data) if isinstance(data, bytes) else str(data))
    except (ImportError, OSError, RuntimeError):  # PyAV then says what is wrong with it
        return None
    header = SoundHeader(opened.samplerate, opened.channels, opened.frames / opened.samplerate)
    is_as_wanted = rate in (None, header.rate) and channels in (None, header.channels)
    if is_as_wanted and (opened.format == "FLAC" or opened.subtype == "VORBIS"):
        return header, _not_empty(_of_soundfile(opened))
    if opened.subtype == "VORBIS" and channels in (None, 1, 2) and opened.channels <= 2:
        return header, _not_empty(_resampled_pieces(opened, rate or header.rate, channels))
    opened.close()
    return None


def _resampled_pieces(file: Any, rate: int, channels: int | None) -> Iterator[Samples]:
    """Samples of a file that soundfile reads, as ffmpeg resamples and mixes them."""
    av, own = load_av(), file.samplerate
    layouts = {1: "mono", 2: "stereo"}
    layout = layouts[file.channels]

    def frames() -> Iterator[Any]:
        for piece in _of_soundfile(file):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(piece.T), format="fltp", layout=layout)
            frame.sample_rate = own
            yield frame

    for frame in _resample(frames(), layouts.get(channels or 0, layout), rate):
        yield _of_frame(frame)


def _of_soundfile(file: Any) -> Iterator[Samples]:
    """The samples of a file; those of FLAC are the same as PyAV has, because nothing is lost in it."""
    dtype = "int16" if file.subtype in ("PCM_16", "PCM_S8") else "float32"
    with file:
        try:
            for _ in range(0, max(file.frames, 1), _PIECE):
                yield file.read(_PIECE, dtype=dtype, always_2d=True)
        except RuntimeError as error:
            raise BadSound(f"it cannot be decoded: {_words(error)}") from None


def _frames(container: Any) -> Iterator[Samples]:
    """Samples as they were stored, a row per moment: 16-bit integers, or floats."""
    return _joined(container, container.decode(container.streams.audio[0]))


def _joined(container: Any, frames: Iterator[Any]) -> Iterator[Samples]:
    """The samples of frames. A frame is about a thousand of them, so ffmpeg joins frames before Python sees them."""
    av = load_av()
    with container:
        held = av.AudioFifo()
        try:
            for frame in frames:
                frame.pts = None  # what is missing between packets is not filled
                held.write(frame)
                if held.samples >= _PIECE:
                    yield _of_frame(held.read())
            if held.samples:
                yield _of_frame(held.read())
        except (av.FFmpegError, ValueError) as error:
            raise BadSound(f"it cannot be decoded: {_words(error)}") from None


_VORBIS = b"\x01vorbis"  # at the beginning of the first page
# Formats of ffmpeg (a `p` after it means a plane per channel), their types, and what makes them reach from -1 to 1.
_FORMATS: dict[str, tuple[str, float]] = {
    "u8": ("u1", 1 / 128),
    "s16": ("<i2", 1.0),
    "s32": ("<i4", 2.0**-31),
    "flt": ("<f4", 1.0),
    "dbl": ("<f8", 1.0),
}


def _of_frame(frame: Any) -> Samples:
    dtype, scale = _FORMATS[frame.format.name.removesuffix("p")]
    channels, moments = frame.layout.nb_channels, frame.samples
    if frame.format.is_planar:
        planes = [np.frombuffer(plane, dtype, moments) for plane in frame.planes]
        values = planes[0].reshape(-1, 1) if channels == 1 else np.stack(planes, axis=1)
    else:
        values = np.frombuffer(frame.planes[0], dtype, moments * channels).reshape(-1, channels)
    return _scaled(values, scale)


def _scaled(values: NDArray[Any], scale: float) -> Samples:
    if values.dtype in (np.int16, np.float32):
        return values
    if values.dtype == np.uint8:
        return ((values.astype(np.float32) - 128) * scale).astype(np.float32)
    return (values * scale).astype(np.float32)


def _resampled(container: Any, rate: int, channels: int | None) -> Iterator[Samples]:
    """Samples as ffmpeg resamples and mixes them."""
    stream = container.streams.audio[0]
    layout = {1: "mono", 2: "stereo"}.get(channels or 0, stream.layout.name)
    return _joined(container, _resample(container.decode(stream), layout, rate))


def _resample(frames: Iterator[Any], layout: str, rate: int) -> Iterator[Any]:
    resampler = load_av().AudioResampler(format="fltp", layout=layout, rate=rate)
    for frame in frames:
        frame.pts = None  # what is missing between packets is not filled
        yield from resampler.resample(frame)
    yield from resampler.resample(None)


def _not_empty(pieces: Iterator[Samples]) -> Iterator[Samples]:
    is_empty = True
    for piece in pieces:
        is_empty = is_empty and not len(piece)
        yield piece
    if is_empty:
        raise BadSound("there are no samples in it")


class _Wave(NamedTuple):
    """A WAV file of plain samples, which needs no decoder."""

    header: SoundHeader
    file: bytes | memoryview | Path
    dtype: str  # of the samples
    scale: float  # that makes them reach from -1 to 1
    width: int  # bytes per sample
    start: int
    moments: int


_HEAD = 4096  # bytes in which the header of a WAV file ends, unless there is much before its samples
_SMALL = 16 << 20  # bytes that are read at once
_PCM, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE
_TYPES = {(_PCM, 8): "u8", (_PCM, 16): "s16", (_PCM, 24): "s32", (_PCM, 32): "s32", (_FLOATS, 32): "flt"}


class _Begun(NamedTuple):
    """The first bytes of a file, its size, and the file itself: its bytes, if it is a small WAV file to read whole."""

    head: bytes
    size: int
    file: bytes | memoryview | Path


def _begin(file: bytes | Path, *, is_whole: bool = False) -> _Begun:
    if isinstance(file, bytes):
        return _Begun(file[:_HEAD], len(file), file)
    try:
        with open_named(file) as opened:
            head, size = opened.read(_HEAD), os.fstat(opened.fileno()).st_size
            is_small = is_whole and head[:4] == b"RIFF" and size <= _SMALL
            return _Begun(head, size, head + opened.read() if is_small else file)
    except OSError as error:
        raise BadSound(f"it cannot be opened: {_words(error)}") from None


def _plain_wave(begun: _Begun) -> _Wave | None:
    """What the header of a WAV file says; None if it is anything but plain samples of one or two channels."""
    head, size, file = begun
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    at, stated = 12, None
    while at + 8 <= len(head):
        name, length = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"fmt " and at + 24 <= len(head):
            stated = _told(head[at + 8 : at + 8 + min(length, 40)])
        elif name == b"data":
            if stated is None or not length:
                return None
            form, rate, channels, width = stated
            moments = min(length, size - at - 8) // (channels * width)
            header = SoundHeader(rate, channels, moments / rate)
            return _Wave(header, file, *_FORMATS[form], width, at + 8, moments) if moments else None
        at += 8 + length + length % 2
    return None


def _told(fields: bytes) -> tuple[str, int, int, int] | None:
    """The format of samples, their rate, channels, and bytes per sample."""
    form, channels, rate, _, align, bits = struct.unpack_from("<HHIIHH", fields)
    if form == _EXTENSIBLE and len(fields) >= 26:
        form = int.from_bytes(fields[24:26], "little")
    known = _TYPES.get((form, bits))
    is_plain = known and rate and channels in (1, 2) and align * 8 == channels * bits
    return (known, rate, channels, bits // 8) if known and is_plain else None


def _of_wave(wave: _Wave) -> Iterator[Samples]:
    for first in range(0, wave.moments, _PIECE):
        size = wave.header.channels * wave.width
        data = _part(wave.file, wave.start + first * size, min(_PIECE, wave.moments - first) * size)
        values = _wide(np.frombuffer(data, np.uint8)) if wave.width == 3 else np.frombuffer(data, wave.dtype)
        yield _scaled(values, wave.scale).reshape(-1, wave.header.channels)


def _part(file: bytes | memoryview | Path, at: int, size: int) -> bytes | memoryview:
    if not isinstance(file, Path):
        return memoryview(file)[at : at + size]
    with open_named(file) as opened:
        opened.seek(at)
        data = opened.read(size)
    if len(data) < size:
        raise BadSound("it became shorter while it was read")
    return data


def _wide(data: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Integers of 24 bits as the upper part of 32."""
    filled = np.zeros((len(data) // 3, 4), np.uint8)
    filled[:, 1:] = data.reshape(-1, 3)
    return filled.view("<i4").reshape(-1)


def as_floats(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Samples from -1 to 1, from 16-bit integers or floats."""
    if samples.dtype == np.int16:
        return (samples / INT16).astype(np.float32)
    return np.asarray(samples, np.float32)


def as_int16(samples: Samples) -> tuple[NDArray[np.int16], int]:
    """Samples as 16-bit integers, and how many were beyond their range."""
    if samples.dtype == np.int16:
        return samples.astype(np.int16, copy=False), 0
    scaled = samples * INT16
    np.rint(scaled, out=scaled)
    if scaled.max(initial=0) < INT16 and scaled.min(initial=0) >= -INT16:
        return scaled.astype(np.int16), 0
    beyond = int(((scaled > INT16 - 1) | (scaled < -INT16)).sum())
    return np.clip(scaled, -INT16, INT16 - 1).astype(np.int16), beyond
