"""Numbers and series: types, ranges, noise and windows."""

from __future__ import annotations

import msgspec
import numpy as np

from bushel.errors import SchemaMismatch
from bushel.records import Sample
from bushel.transforms.protocol import Draw
from bushel.transforms.values import array_of

__all__ = ["cast", "jitter", "normalise", "scale", "window"]


class Cast(msgspec.Struct, frozen=True, tag="cast"):
    """Numbers of another dtype."""

    feature: str
    dtype: str

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Cast the values."""
        return {**sample, self.feature: array_of(sample, self.feature).astype(self.dtype)}


class Normalise(msgspec.Struct, frozen=True, tag="normalise"):
    """(value - mean) / std as float32; one number, or one for each of the last axis."""

    feature: str
    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 255.0

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.std) > 0):
            raise ValueError(f"std must be above 0, got {self.std}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Shift and scale the values."""
        values = array_of(sample, self.feature).astype(np.float32)
        values -= np.asarray(self.mean, np.float32)
        values /= np.asarray(self.std, np.float32)
        return {**sample, self.feature: values}


class Jitter(msgspec.Struct, frozen=True, tag="jitter"):
    """Normal noise of this standard deviation, added to every value."""

    feature: str
    std: float

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Add noise."""
        values = array_of(sample, self.feature)
        noise = draw.generator().normal(0, self.std, values.shape)
        return {**sample, self.feature: (values + noise).astype(np.float32)}


class Scale(msgspec.Struct, frozen=True, tag="scale"):
    """All values times one factor of 1 - most to 1 + most."""

    feature: str
    most: float = 0.1

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Scale the values."""
        factor = np.float32(draw.between(1 - self.most, 1 + self.most))
        return {**sample, self.feature: array_of(sample, self.feature).astype(np.float32) * factor}


class Window(msgspec.Struct, frozen=True, tag="window"):
    """So many steps of a series, from anywhere in it; from its middle where not `random`."""

    feature: str
    length: int
    random: bool = True

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Cut the series."""
        series = array_of(sample, self.feature)
        room = len(series) - self.length
        if room < 0:
            raise SchemaMismatch(f"the series has {len(series)} steps, fewer than {self.length}", at=self.feature)
        start = min(int((draw.uniforms(1)[0] if self.random else 0.5) * (room + 1)), room)
        return {**sample, self.feature: series[start : start + self.length]}


cast, normalise, jitter, scale, window = Cast, Normalise, Jitter, Scale, Window
