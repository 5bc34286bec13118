"""A transform that learns, for tests: importable by name, as a recipe needs it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass
class Centred:
    """Takes the mean of the train split from a feature."""

    feature: str
    fitted: Any = None

    def begin_fit(self) -> "CentredFit":
        return CentredFit(self)

    def apply(self, sample: dict[str, Any], draw: Any) -> dict[str, Any]:
        return {**sample, self.feature: np.float32(sample[self.feature] - self.fitted["mean"])}


@dataclass
class CentredFit:
    of: Centred
    total: float = 0.0
    rows: int = 0

    def add(self, samples: Any) -> None:
        for sample in samples:
            self.total += float(sample[self.of.feature])
            self.rows += 1

    def merge(self, other: "CentredFit") -> "CentredFit":
        return CentredFit(self.of, self.total + other.total, self.rows + other.rows)

    def finish(self) -> Centred:
        return replace(self.of, fitted={"mean": self.total / max(self.rows, 1)})
