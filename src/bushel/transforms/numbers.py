"""Numbers and series: types, ranges, logarithms, buckets, noise, windows and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.samples import Sample
from bushel.errors import MissingName, SchemaMismatch
from bushel.transforms.canvas import Canvas
from bushel.transforms.interface import EVERY_ENGINE, DeclaredTransform, Draw, Draws, Engine, Fit, array_of

EXACT = 1 << 20  # up to this many values, all are kept
BUFFER = 1 << 17  # values per buffer beyond that

Floats = NDArray[np.float64]


@dataclass
class Quantiles:
    """A summary of the distribution of values, which can be merged in any fixed order.

    Up to `EXACT` values, all are kept. Beyond that, values in sorted buffers of `BUFFER` stand for 2^level values each;
    two buffers of one level become one of the next by dropping every other value. Each time, no rank moves by more than
    the weight of one value, so `error` bounds how far any rank can be off: about log2(n / BUFFER) / (2 * BUFFER) of all
    values, which is 0.005% for a billion.
    """

    count: int = 0
    error: int = 0  # ranks
    _whole: list[Floats] = field(default_factory=list)  # values not yet in buffers
    _buffers: dict[int, Floats] = field(default_factory=dict)  # sorted, at most one per level
    _odd: dict[int, bool] = field(default_factory=dict)  # which of two values was kept last, by level

    def add(self, values: Floats) -> None:
        """Learn more values; those that are not finite are skipped."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        self._whole.append(values)
        if self.count > EXACT:
            self._collapse()

    def merge(self, other: Quantiles) -> Quantiles:
        """Merge what another has learned."""
        self.count += other.count
        self.error += other.error
        self._whole += other._whole
        for level in sorted(other._buffers):
            self._put(other._buffers[level], level)
        if self.count > EXACT:
            self._collapse()
        return self

    def _collapse(self) -> None:
        flat = np.concatenate([*self._whole, np.empty(0)])
        full = len(flat) // BUFFER * BUFFER
        for begin in range(0, full, BUFFER):
            self._put(np.sort(flat[begin : begin + BUFFER]), 0)
        self._whole = [flat[full:]]

    def _put(self, buffer: Floats, level: int) -> None:
        while level in self._buffers:
            both = np.sort(np.concatenate([self._buffers.pop(level), buffer]), kind="stable")
            odd = self._odd[level] = not self._odd.get(level, False)  # in turn, so that errors cancel
            buffer = both[int(odd) :: 2]
            self.error += 1 << level
            level += 1
        self._buffers[level] = buffer

    def at(self, shares: list[float]) -> list[float]:
        """The quantiles at these shares: interpolated like NumPy's while all values are kept, else the nearest."""
        if not self.count:
            return [0.0 for _ in shares]
        flat = np.concatenate([*self._whole, np.empty(0)])
        if not self._buffers:
            return [float(value) for value in np.quantile(flat, shares)]
        parts = [(flat, 1), *((self._buffers[level], 1 << level) for level in sorted(self._buffers))]
        values = np.concatenate([part for part, _ in parts])
        weights = np.concatenate([np.full(len(part), weight) for part, weight in parts])
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(weights[order])
        ranks = np.array(shares) * (self.count - 1) + 1
        return [float(value) for value in values[order][np.searchsorted(ends, ranks)]]

    @property
    def rank_error(self) -> float:
        """The share of all values by which any rank may be off; 0 if quantiles are exact."""
        return self.error / self.count if self.count else 0.0


class Cast(DeclaredTransform, msgspec.Struct, frozen=True, tag="cast"):
    """Cast numbers to another dtype."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    dtype: str

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Cast the values."""
        return {**sample, self.feature: array_of(sample, self.feature).astype(self.dtype)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:  # noqa: ARG002
        """Cast all images of a batch."""
        return canvas.cast(self.dtype)


class Normalise(DeclaredTransform, msgspec.Struct, frozen=True, tag="normalise"):
    """(value - mean) / std as float32; one number, or one per position of the last axis."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
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

    def paint(self, canvas: Canvas, draws: Draws) -> bool:  # noqa: ARG002
        """Shift and scale all images of a batch."""
        return canvas.normalise(self.mean, self.std)


class Jitter(DeclaredTransform, msgspec.Struct, frozen=True, tag="jitter"):
    """Add normal noise with this standard deviation to every value."""

    feature: str
    std: float

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Add noise."""
        values = array_of(sample, self.feature)
        noise = draw.generator().normal(0, self.std, values.shape)
        return {**sample, self.feature: (values + noise).astype(np.float32)}


class Scale(DeclaredTransform, msgspec.Struct, frozen=True, tag="scale"):
    """Multiply all values by one factor from 1 - most to 1 + most."""

    feature: str
    most: float = 0.1

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Scale the values."""
        factor = np.float32(draw.between(1 - self.most, 1 + self.most))
        return {**sample, self.feature: array_of(sample, self.feature).astype(np.float32) * factor}


class Window(DeclaredTransform, msgspec.Struct, frozen=True, tag="window"):
    """Cut a series to this many steps, at a random place, or in the middle unless `random`."""

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


_MOST_BUCKETS = 1_000_000  # a recipe may ask for any number
_VARIES = "Where lists vary in length, take all their values together: each = false"


class Elementwise(DeclaredTransform, msgspec.Struct, frozen=True):
    """A transform of the numbers of one feature. A sample that lacks the feature is left as it is."""

    def change(self, values: NDArray[Any]) -> NDArray[Any]:
        """Change the values of any number of samples; positions are along the last axis."""
        raise NotImplementedError

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Change the values of one sample."""
        feature: str = self.feature
        if feature not in sample:
            return sample
        return {**sample, feature: self.change(array_of(sample, feature))}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Change the values of many samples."""
        feature: str = self.feature
        return {**columns, feature: change_column(numbers_column(columns, feature), self.change)}


def numbers_column(columns: dict[str, Column], feature: str) -> NDArray[Any] | Ragged:
    """A column that must be numbers."""
    if feature not in columns:
        raise MissingName("feature", feature, columns, where="transform")
    column = columns[feature]
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(column, BytesColumn) or not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise SchemaMismatch("expected numbers, got text", at=feature)
    return column


def change_column(column: NDArray[Any] | Ragged, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Column:
    """A column with its values changed, and its rows as long as they were."""
    if not isinstance(column, Ragged):
        return change(column)
    assert isinstance(column.values, np.ndarray)
    width = _width(column)
    flat = change(column.values.reshape(-1, width)).reshape(-1) if width > 1 else change(column.values)
    return Ragged(flat, column.row_splits, column.present)


def _width(column: Ragged) -> int:
    """How many values each row that has any has, if it is the same number in all; otherwise 1."""
    assert isinstance(column.values, np.ndarray)
    if column.values.ndim > 1:
        return 1
    lengths = column.lengths if column.present is None else column.lengths[column.present]
    return int(lengths[0]) if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all() else 1


def line_up(values: tuple[float, ...]) -> Any:
    """Statistics per position as an array to compute with, along the last axis of values."""
    return np.array(values) if len(values) != 1 else np.float64(values[0])


def by_position(samples: Sequence[Sample], feature: str, *, each: bool) -> Floats | None:
    """The values of samples that have the feature, one column per position; None if no sample has it."""
    arrays = [array_of(sample, feature) for sample in samples if feature in sample]
    if not arrays:
        return None
    if not each:
        return np.concatenate([array.reshape(-1) for array in arrays]).astype(np.float64).reshape(-1, 1)
    widths = {array.shape[-1] if array.ndim else 1 for array in arrays}
    if len(widths) > 1:
        raise _varies(feature, widths)
    return np.concatenate([array.reshape(-1, *widths) for array in arrays]).astype(np.float64)


def columns_by_position(columns: dict[str, Column], feature: str, *, each: bool) -> Floats | None:
    """The same as `by_position`, for columns."""
    column = numbers_column(columns, feature)
    values = column.values if isinstance(column, Ragged) else column
    assert isinstance(values, np.ndarray)
    if not len(values):
        return None
    if not each:
        return values.astype(np.float64).reshape(-1, 1)
    if not isinstance(column, Ragged) or values.ndim > 1:
        width = values.shape[-1] if values.ndim > 1 else 1
        return values.astype(np.float64).reshape(-1, width)
    width = _width(column)
    if width == 1 and int(column.lengths.max(initial=0)) > 1:
        raise _varies(feature, set(column.lengths.tolist()))
    return values.astype(np.float64).reshape(-1, width)


def check_width(one: int, other: int, feature: str) -> None:
    """Refuse to merge fits of rows with different numbers of positions."""
    if one != other:
        raise _varies(feature, {one, other})


def _varies(feature: str, widths: set[int]) -> SchemaMismatch:
    some = " and ".join(str(width) for width in sorted(widths)[:2])
    return SchemaMismatch(
        f"rows have {some} positions, and each position is fitted by itself", at=feature, help=[_VARIES]
    )


class Clip(Elementwise, frozen=True, tag="clip"):
    """Set values below `low` to `low`, and those above `high` to `high`. Integers stay integers if the limits are."""

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
    """The number of the bucket of each value, as int64: 0 below the first edge, and one more from each edge on.

    Edges are given, or put the values of the train split into `buckets` buckets of equal count (fewer if many values
    are the same). NaN is in no bucket: such a sample is refused.
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
        if self.buckets is not None and not 2 <= self.buckets <= _MOST_BUCKETS:
            raise ValueError(f"buckets must be 2 to {_MOST_BUCKETS:,}, got {self.buckets:,}")

    @property
    def is_given(self) -> bool:
        """Whether edges are given, so that there is nothing to learn."""
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
        """Merge two fits."""
        self.known.merge(other.known)
        return self

    def finish(self) -> Any:
        """The transform with its edges."""
        shares = [number / self.of.buckets for number in range(1, self.of.buckets)]
        edges = tuple(sorted(set(self.known.at(shares))))
        fitted = Edges(self.known.count, edges, self.known.rank_error)
        return msgspec.structs.replace(self.of, fitted=fitted)


clip, log, bucketise = Clip, Log, Bucketise
