"""What a transform is, and where its randomness comes from."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from bushel import _native
from bushel.columns import Column
from bushel.records import Sample

__all__ = ["BatchTransform", "Draw", "Transform"]

_WORD = 2**64 - 1


@dataclass(frozen=True)
class Draw:
    """Where the randomness of one sample comes from.

    A transform that draws from it changes the same record in the same epoch the same way, whatever the number of
    threads or workers. `step` tells apart the transforms of one sample.
    """

    seed: int
    epoch: int
    record: int  # its number, or the hash of its key
    step: int = 0

    def generator(self, salt: int = 0) -> np.random.Generator:
        """Make a generator of this draw's own."""
        key = (self.seed & _WORD) | ((self.record & _WORD) << 64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, self.step, salt, self.epoch]))

    def uniforms(self, count: int) -> list[float]:
        """A few numbers of 0 to 1, much cheaper than a generator's."""
        values = (self.seed, self.epoch, self.record, self.step)
        key = struct.pack("<4Q", *(value & _WORD for value in values))
        return [(_native.xxh64(key, number) >> 11) / 2.0**53 for number in range(count)]

    def between(self, low: float, high: float) -> float:
        """One number of `low` to `high`."""
        return low + (high - low) * self.uniforms(1)[0]


class Transform(Protocol):
    """A value, picklable and comparable, that changes samples."""

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Return the changed sample; the one given is left as it was."""
        ...


@runtime_checkable
class BatchTransform(Protocol):
    """A transform of whole batches, which mixes their rows. Runs behind those of samples."""

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Return the changed columns; those given are left as they were."""
        ...
