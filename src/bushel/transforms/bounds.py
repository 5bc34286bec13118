"""Numbers cut to a range, taken as logarithms, and put into buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.columns import Column
from bushel.errors import SchemaMismatch
from bushel.records import Sample
from bushel.transforms.elementwise import Elementwise, by_position, columns_by_position
from bushel.transforms.protocol import Fit
from bushel.transforms.quantiles import Quantiles

__all__ = ["bucketise", "clip", "log"]


class Clip(Elementwise, frozen=True, tag="clip"):
    """Values below `low` become `low`, those above `high` become `high`. Integers stay integers if the edges are."""

    feature: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise ValueError("low or high must be given")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(f"low must not be above high, got {self.low} and {self.high}")

    def change(self, values: NDArray[Any]) -> NDArray[Any]:
        """Cut the values."""
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        cut = np.clip(values.astype(np.float64), low, high)
        if values.dtype.kind in "biu" and all(math.isinf(edge) or float(edge).is_integer() for edge in (low, high)):
            return np.where(cut == values, values, cut.astype(np.int64)).astype(np.int64)
        return cut.astype(np.float32)


class Log(Elementwise, frozen=True, tag="log"):
    """The natural logarithm of value + plus, as float32. A sample with a value of -plus or less is refused."""

    feature: str
    plus: float = 1.0

    def change(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Take the logarithm."""
        moved = values.astype(np.float64) + self.plus
        if (bad := moved <= 0).any():
            raise SchemaMismatch(f"{values[bad].flat[0]} + {self.plus:g} has no logarithm", at=self.feature)
        return np.log(moved).astype(np.float32)


class Edges(msgspec.Struct, frozen=True):
    """Where one bucket ends and the next begins."""

    count: int
    edges: tuple[float, ...]
    rank_error: float = 0.0


class Bucketise(Elementwise, frozen=True, tag="bucketise"):
    """The number of the bucket that each value is in, as int64: 0 below the first edge, and from each edge on one more.

    Edges are those given, or those that put the values of the train split into `buckets` buckets of the same count
    (fewer, where many values are the same). NaN is in no bucket: such a sample is refused.
    """

    feature: str
    edges: tuple[float, ...] = ()
    buckets: int | None = None
    fitted: Edges | None = None

    def __post_init__(self) -> None:
        if bool(self.edges) == (self.buckets is not None):
            raise ValueError("edges or buckets must be given, and not both")
        if any(later <= before for before, later in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"edges must rise, got {self.edges}")
        if self.buckets is not None and self.buckets < 2:
            raise ValueError(f"buckets must be at least 2, got {self.buckets}")

    @property
    def is_given(self) -> bool:
        """There is nothing to learn where edges are given."""
        return bool(self.edges)

    def change(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Find the buckets."""
        assert self.edges or self.fitted is not None, "a transform is fitted before it is used"
        edges = self.edges or (self.fitted.edges if self.fitted else ())
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise SchemaMismatch("NaN is in no bucket", at=self.feature, help=["Fill it first: transforms.fill"])
        return np.searchsorted(np.array(edges), values, side="right").astype(np.int64)

    def begin_fit(self) -> Fit:
        """Begin to learn the edges."""
        return EdgesFit(self)


@dataclass
class EdgesFit:
    """The distribution of all values."""

    of: Any
    known: Quantiles = field(default_factory=Quantiles)

    def add(self, samples: Sequence[Sample]) -> None:
        """Learn from samples."""
        values = by_position(samples, self.of.feature, each=False)
        if values is not None:
            self.known.add(values[:, 0])

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Learn from columns."""
        values = columns_by_position(columns, self.of.feature, each=False)
        if values is not None:
            self.known.add(values[:, 0])

    def merge(self, other: EdgesFit) -> EdgesFit:
        """Put two together."""
        self.known.merge(other.known)
        return self

    def finish(self) -> Any:
        """The transform with its edges."""
        shares = [number / self.of.buckets for number in range(1, self.of.buckets)]
        edges = tuple(sorted(set(self.known.at(shares))))
        fitted = Edges(self.known.count, edges, self.known.rank_error)
        return msgspec.structs.replace(self.of, fitted=fitted)


clip, log, bucketise = Clip, Log, Bucketise
