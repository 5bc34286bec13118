"""Sound: decoding, spectrograms and mel features, with the values of librosa."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import Column
from bushel.data.samples import Sample
from bushel.data.sound_decoding import BadSound, as_floats, decode_sound
from bushel.errors import SchemaMismatch
from bushel.transforms.interface import DeclaredTransform, Draw, array_of, value_of

Scale = Literal["power", "log", "db"]
_SCALES = ("power", "log", "db")
_SMALLEST = 1e-10  # power below which the logarithm is that of this
_RANGE = 80.0  # decibels below the loudest


class DecodeAudio(DeclaredTransform, msgspec.Struct, frozen=True, tag="decode_audio"):
    """Decode the bytes of a sound file to float32 samples from -1 to 1, resampled and mixed.

    `length` cuts longer sounds, and pads shorter ones with silence.
    """

    feature: str
    rate: int | None = None
    channels: int = 1
    length: int | None = None

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """One sound."""
        data = value_of(sample, self.feature)
        if not isinstance(data, bytes):
            raise SchemaMismatch(f"expected the bytes of a sound file, got {type(data).__name__}", at=self.feature)
        try:
            sound = decode_sound(data, rate=self.rate, channels=self.channels)
        except BadSound as error:
            raise SchemaMismatch(str(error), at=self.feature) from None
        samples = as_floats(sound.samples[:, 0] if self.channels == 1 else sound.samples)
        if self.length is not None:
            samples = _fitted(samples, self.length, self.feature, draw)
        return {**sample, self.feature: np.ascontiguousarray(samples)}


class FitAudio(DeclaredTransform, msgspec.Struct, frozen=True, tag="fit_audio"):
    """Cut a sound to this many samples, or pad it with silence."""

    feature: str
    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """One sound."""
        return {**sample, self.feature: _fitted(array_of(sample, self.feature), self.length, self.feature, draw)}


def _fitted(samples: NDArray[Any], length: int, feature: str, draw: Draw) -> NDArray[Any]:
    if len(samples) > length:
        draw.note(f"{feature}: sounds cut")
    missing = max(0, length - len(samples))
    return np.ascontiguousarray(np.pad(samples[:length], [(0, missing), *[(0, 0)] * (samples.ndim - 1)]))


class Spectrogram(DeclaredTransform, msgspec.Struct, frozen=True, tag="spectrogram"):
    """Power of each frequency over time: float32 [1 + window / 2, frames], as `abs(librosa.stft(y)) ** 2`.

    Frames are centred on multiples of `hop`, with silence before and after. `scale` is `power`, `log` (natural) or `db`
    (decibels, at most 80 below the loudest, as `librosa.power_to_db`).
    """

    feature: str
    window: int = 2048
    hop: int = 512
    scale: Scale = "power"

    def __post_init__(self) -> None:
        _check(self.window, self.hop, self.scale)

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """One sound."""
        found = _scaled(_power(_mono(array_of(sample, self.feature), self.feature), self.window, self.hop), self.scale)
        return {**sample, self.feature: found}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Sounds of one length."""
        sounds = _sounds(columns, self.feature)
        return {**columns, self.feature: _scaled(_power(sounds, self.window, self.hop), self.scale)}


class Mel(DeclaredTransform, msgspec.Struct, frozen=True, tag="mel"):
    """Mel features of sound with `rate` samples per second: float32 [bands, frames].

    The values of `librosa.feature.melspectrogram(y=..., sr=rate, n_fft=window, hop_length=hop, n_mels=bands)`, within
    1e-4; `scale` is `db` (as `librosa.power_to_db`), `log` or `power`.
    """

    feature: str
    rate: int
    bands: int = 64
    window: int = 1024
    hop: int = 256
    low: float = 0.0  # hertz
    high: float | None = None  # hertz; half the rate if not given
    scale: Scale = "db"
    as_image: bool = False  # [bands, frames, 1], for a model of images

    def __post_init__(self) -> None:
        _check(self.window, self.hop, self.scale)
        if self.rate < 1 or self.bands < 1:
            raise ValueError(f"rate and bands must be at least 1, got {self.rate} and {self.bands}")
        if not 0 <= self.low < (self.high or self.rate / 2) <= self.rate / 2:
            raise ValueError(f"low and high must be within 0 and {self.rate / 2:g}, got {self.low} and {self.high}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """One sound."""
        return {**sample, self.feature: self._of(_mono(array_of(sample, self.feature), self.feature))}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Sounds of one length."""
        return {**columns, self.feature: self._of(_sounds(columns, self.feature))}

    def _of(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        weights = mel_weights(self.rate, self.window, self.bands, self.low, self.high or self.rate / 2)
        found = _scaled(np.matmul(weights, _power(samples, self.window, self.hop)), self.scale)
        return found[..., None] if self.as_image else found


def _check(window: int, hop: int, scale: str) -> None:
    if window < 2 or hop < 1:
        raise ValueError(f"window must be at least 2 and hop at least 1, got {window} and {hop}")
    if scale not in _SCALES:
        raise ValueError(f"scale must be one of {', '.join(_SCALES)}; got {scale!r}")


def _mono(samples: NDArray[Any], feature: str) -> NDArray[np.float32]:
    if samples.ndim == 2 and samples.shape[-1] <= 2:
        samples = as_floats(samples).mean(axis=-1)
    if samples.ndim != 1 or not len(samples):
        raise SchemaMismatch(f"expected samples of a sound, got {samples.dtype}{list(samples.shape)}", at=feature)
    return as_floats(samples)


def _sounds(columns: dict[str, Column], feature: str) -> NDArray[np.float32]:
    """A column of sounds of one length; others are taken sample by sample."""
    column = columns[feature]
    if not isinstance(column, np.ndarray) or column.ndim != 2 or column.shape[1] <= 2:
        raise SchemaMismatch("expected sounds of one length", at=feature)
    return as_floats(column)


def _power(samples: NDArray[np.float32], window: int, hop: int) -> NDArray[np.float32]:
    """The power of each frequency, by frame; samples are along the last axis."""
    pad = [(0, 0)] * (samples.ndim - 1) + [(window // 2, window // 2)]
    padded = np.pad(samples, pad)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window, axis=-1)[..., ::hop, :]
    found = np.fft.rfft(frames * _hann(window), axis=-1)
    return np.ascontiguousarray(np.swapaxes(np.abs(found) ** 2, -1, -2), np.float32)


@lru_cache(maxsize=8)
def _hann(size: int) -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)


def _scaled(power: NDArray[np.float32], scale: Scale) -> NDArray[np.float32]:
    if scale == "power":
        return power
    if scale == "log":
        return np.asarray(np.log(np.maximum(power, _SMALLEST)), np.float32)
    found = 10.0 * np.log10(np.maximum(power, _SMALLEST))
    loudest = found.max(axis=(-1, -2), keepdims=True)
    return np.asarray(np.maximum(found, loudest - _RANGE), np.float32)


@lru_cache(maxsize=8)
def mel_weights(rate: int, window: int, bands: int, low: float, high: float) -> NDArray[np.float32]:
    """Triangular filters of equal area, evenly spaced on Slaney's mel scale: [bands, frequencies]."""
    edges = _hertz(np.linspace(_mels(low), _mels(high), bands + 2))
    frequencies = np.fft.rfftfreq(window, 1.0 / rate)
    ramps = edges[:, None] - frequencies
    steps = np.diff(edges)
    rising, falling = -ramps[:-2] / steps[:-1, None], ramps[2:] / steps[1:, None]
    found = np.maximum(0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return found.astype(np.float32)


# Slaney's scale is linear up to 1,000 Hz, which are 15 mels, and logarithmic above: 27 steps per factor of 6.4.
_LINEAR, _BEND, _STEP = 200.0 / 3, 1000.0, np.log(6.4) / 27.0


def _mels(hertz: float) -> float:
    return hertz / _LINEAR if hertz < _BEND else _BEND / _LINEAR + float(np.log(hertz / _BEND)) / _STEP


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    bend = _BEND / _LINEAR
    return np.where(mels < bend, mels * _LINEAR, _BEND * np.exp(_STEP * (mels - bend)))


decode_audio = DecodeAudio
fit_audio = FitAudio
spectrogram = Spectrogram
mel = Mel
