"""Sample to sample, the same at build time and at reading time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bushel.records import Sample

__all__ = ["Draw", "Transform"]


@dataclass(frozen=True)
class Draw:
    """Where the randomness of one sample comes from.

    A transform that draws from it changes the same record in the same epoch the same way, whatever the number of
    threads or workers.
    """

    seed: int
    epoch: int
    record: int  # its number, or the hash of its key

    def generator(self, salt: int = 0) -> np.random.Generator:
        """Make a generator of this draw's own; `salt` tells apart transforms of one sample."""
        key = (self.seed & (2**64 - 1)) | ((self.record & (2**64 - 1)) << 64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, salt, self.epoch]))


class Transform(Protocol):
    """A value, picklable and comparable, that changes samples."""

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Return the changed sample; the one given is left as it was."""
        ...
