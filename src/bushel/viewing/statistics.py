"""What a split holds, in numbers: one pass, in little memory; the numbers of shards add up, and TFDV can read them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import BYTES_KIND, IMAGE_ENCODINGS, INT_KIND, Feature, FeatureStatistics
from bushel.data.tf_descriptions import block, quoted
from bushel.errors import BushelError, printable, quantity
from bushel.pixels.headers import read_headers
from bushel.reading.dataset import Split
from bushel.records.scan import to_column
from bushel.records.survey import infer_schema
from bushel.storage import AnyPath
from bushel.viewing.opened import Opened, OpenedSplit, open_all

__all__ = [
    "COUNTED_TEXT",
    "FeatureSummary",
    "Numbers",
    "Summary",
    "class_counts",
    "compared",
    "drift",
    "side_by_side",
    "statistics_pbtxt",
    "summarise",
]


Ints: TypeAlias = NDArray[np.int64]

_SAMPLE = 4096  # values kept of each feature, for histograms and quantiles
_DISTINCT = 1000  # values counted one by one
_MANY = f"more than {_DISTINCT:,} different values"
_NAMED, _WIDE = 4, 24  # texts that are named, and characters of each
COUNTED_TEXT = 64  # bytes of a value that is counted
_CHUNK_BYTES = 8 << 20
_RUN = 16  # records next to each other, where only some are looked at
_BINS = 24
_BARS = 12  # values that have a bar of their own


@dataclass
class Numbers:
    """Counts, range, mean and deviation of numbers, and some of them; two of these add up to those of all numbers."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0  # of the differences from the mean
    odd: int = 0  # that are not finite
    zeros: int = 0
    kept: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    ranks: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, values: Any, draw: np.random.Generator) -> Numbers:
        """The numbers of an array."""
        flat = np.ravel(np.asarray(values, np.float64))
        finite = flat[np.isfinite(flat)]
        if not len(finite):
            return cls(odd=len(flat))
        mean = float(finite.mean())
        ranks = draw.random(len(finite))
        first = np.argsort(ranks)[:_SAMPLE] if len(ranks) > _SAMPLE else slice(None)
        return cls(
            count=len(finite),
            low=float(finite.min()),
            high=float(finite.max()),
            mean=mean,
            squares=float(((finite - mean) ** 2).sum()),
            odd=len(flat) - len(finite),
            zeros=len(finite) - int(np.count_nonzero(finite)),
            kept=finite[first],
            ranks=ranks[first],
        )

    def __add__(self, other: Numbers) -> Numbers:
        count = self.count + other.count
        if not count:
            return Numbers(odd=self.odd + other.odd)
        apart = other.mean - self.mean
        kept, ranks = np.concatenate([self.kept, other.kept]), np.concatenate([self.ranks, other.ranks])
        first = np.argsort(ranks)[:_SAMPLE] if len(ranks) > _SAMPLE else slice(None)
        return Numbers(
            count=count,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            mean=self.mean + apart * other.count / count,
            squares=self.squares + other.squares + apart**2 * self.count * other.count / count,
            odd=self.odd + other.odd,
            zeros=self.zeros + other.zeros,
            kept=kept[first],
            ranks=ranks[first],
        )

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def histogram(self, low: float | None = None, high: float | None = None) -> list[float]:
        """The share of the values in each of some equal steps from the lowest to the highest."""
        if not self.count:
            return []
        ends = (self.low if low is None else low, self.high if high is None else high)
        if not ends[1] > ends[0]:
            return [1.0]
        counts, _ = np.histogram(np.clip(self.kept, *ends), bins=_BINS, range=ends)
        return [float(share) for share in counts / max(1, counts.sum())]

    def to_json(self) -> dict[str, Any]:
        """The numbers that a page shows."""
        if not self.count:
            return {"count": 0, "odd": self.odd}
        middle = float(np.median(self.kept))
        facts = {"low": self.low, "high": self.high, "mean": self.mean, "deviation": self.deviation, "median": middle}
        return {"count": self.count, "odd": self.odd, **facts, "bins": self.histogram()}


@dataclass
class FeatureSummary:
    """One feature."""

    present: int = 0  # records that have it
    bytes: int = 0
    values: Numbers = field(default_factory=Numbers)  # of numbers
    lengths: Numbers = field(default_factory=Numbers)  # of lists: values; of bytes: bytes
    widths: Numbers = field(default_factory=Numbers)  # of images
    heights: Numbers = field(default_factory=Numbers)
    counts: Counter[str] = field(default_factory=Counter)  # of single values
    is_open: bool = True  # whether all values are in `counts`

    def __add__(self, other: FeatureSummary) -> FeatureSummary:
        is_open = self.is_open and other.is_open
        counts = self.counts + other.counts
        if len(counts) > _DISTINCT:
            is_open, counts = False, Counter(dict(counts.most_common(_DISTINCT)))
        return FeatureSummary(
            self.present + other.present,
            self.bytes + other.bytes,
            self.values + other.values,
            self.lengths + other.lengths,
            self.widths + other.widths,
            self.heights + other.heights,
            counts,
            is_open,
        )

    @property
    def texts(self) -> str:
        """The most frequent texts, and how many others there are; empty if it does not hold single texts.

        Lengths in bytes would say less: whoever looks at a column of text wants to know what is in it.
        """
        if not self.counts or self.values.count:
            return ""
        top = self.counts.most_common(_NAMED)
        names = [printable(value if len(value) <= _WIDE else f"{value[: _WIDE - 1]}…", form="line") for value, _ in top]
        if top[0][1] == 1:
            different = quantity(len(self.counts), "different value") if self.is_open else _MANY
            return f"{different}, such as {' and '.join(map(repr, names[:2]))}"
        said = ", ".join(f"{name or '(empty)'}: {count:,}" for name, (_, count) in zip(names, top, strict=True))
        if not self.is_open:
            return f"{said}; {_MANY}"
        others = len(self.counts) - len(top)
        return f"{said} and {quantity(others, 'other value')}" if others else said

    def to_json(self) -> dict[str, Any]:
        """What a page shows of it."""
        top = self.counts.most_common(20)
        return {
            "present": self.present,
            "bytes": self.bytes,
            "values": self.values.to_json(),
            "lengths": self.lengths.to_json(),
            "widths": self.widths.to_json(),
            "heights": self.heights.to_json(),
            "top": [[value, count] for value, count in top] if self.is_open or (top and top[0][1] > 1) else [],
            "distinct": len(self.counts),
            "is_open": self.is_open,
            "texts": self.texts,
        }


@dataclass
class Summary:
    """Some records of a split."""

    records: int = 0
    damaged: int = 0
    sizes: Numbers = field(default_factory=Numbers)
    features: dict[str, FeatureSummary] = field(default_factory=dict)

    def __add__(self, other: Summary) -> Summary:
        names = [*self.features, *(name for name in other.features if name not in self.features)]
        empty = FeatureSummary()
        return Summary(
            self.records + other.records,
            self.damaged + other.damaged,
            self.sizes + other.sizes,
            {name: self.features.get(name, empty) + other.features.get(name, empty) for name in names},
        )

    def to_json(self) -> dict[str, Any]:
        """What a page shows of it."""
        return {
            "records": self.records,
            "damaged": self.damaged,
            "sizes": self.sizes.to_json(),
            "features": {name: feature.to_json() for name, feature in self.features.items()},
        }


def summarise(
    part: OpenedSplit, most: int | None = None, progress: Callable[[int, int], None] | None = None, seed: int = 0
) -> Summary:
    """Look at all records of a split, or at about `most` of them, spread over its shards."""
    total = Summary()
    for number, (first, shard) in enumerate(part.each_shard()):
        draw = np.random.default_rng([seed, number])
        try:
            rows = _chosen(part, first, len(shard.shards), most)
            for some in _chunks(shard, rows):
                total += _summary(shard, some, draw)
                if progress is not None:
                    progress(total.records + total.damaged, min(most or len(part), len(part)))
        except (BushelError, OSError):
            total += Summary(damaged=part.split.promised[number].records if part.split.promised else 1)
    return total


def _chosen(part: OpenedSplit, first: int, count: int, most: int | None) -> Ints:
    rows = np.arange(count, dtype=np.int64)
    if part.rows is not None:
        return rows[np.isin(rows + first, part.rows)]
    if most is None or most >= len(part):
        return rows
    # Runs at equal distances in the whole split, so that each shard has its share.
    runs = max(1, most // _RUN)
    begins = np.arange(runs, dtype=np.int64) * len(part) // runs
    wanted = (begins[:, None] + np.arange(_RUN)).ravel() - first
    return np.unique(wanted[(wanted >= 0) & (wanted < count)])


def _chunks(shard: Split, rows: Ints) -> Iterable[Ints]:
    if not len(rows):
        return
    lengths = shard.shards.shards[0].index.lengths[rows].astype(np.int64)
    number = np.cumsum(lengths + 64) // _CHUNK_BYTES
    for cut in np.split(rows, np.flatnonzero(np.diff(number)) + 1):
        for begin in range(0, len(cut), 8192):
            yield cut[begin : begin + 8192]


def _summary(shard: Split, rows: Ints, draw: np.random.Generator) -> Summary:
    good = rows if not shard.shards.decode(rows, wanted := shard.wanted()).faults else shard.usable(rows)
    found = Summary(records=len(good), damaged=len(rows) - len(good))
    if not len(good):
        return found
    found.sizes = Numbers.of(shard.shards.shards[0].index.lengths[good], draw)
    for (name, _, kind), column in zip(wanted, shard.shards.decode(good, wanted).columns, strict=True):
        feature = shard.schema.features.get(name)
        is_image = feature is not None and feature.encoding in IMAGE_ENCODINGS
        is_raw = feature is not None and feature.encoding == "raw"
        dtype = feature.dtype if feature is not None and is_raw else None
        is_text = kind == BYTES_KIND and (feature is None or feature.dtype == "str")
        values = to_column(column)
        if feature is not None and feature.reads_as == "uint64" and isinstance(values, np.ndarray):
            values = values.view(np.uint64)  # stored as int64, with the same bits
        found.features[name] = _feature(values, len(good), draw, is_image, is_text, dtype)
    return found


def _feature(
    column: Any, rows: int, draw: np.random.Generator, is_image: bool, is_text: bool, dtype: str | None
) -> FeatureSummary:
    found = FeatureSummary(present=rows)
    if isinstance(column, Ragged):
        lengths = column.lengths
        found.present = int((lengths > 0).sum()) if column.present is None else int(np.sum(column.present))
        found.lengths = Numbers.of(lengths, draw)
        is_single = bool((lengths <= 1).all())
        column = column.values
        while isinstance(column, Ragged):
            column = column.values
    else:
        is_single = isinstance(column, BytesColumn) or np.ndim(column) == 1
        if not isinstance(column, BytesColumn):
            found.lengths = Numbers.of([np.size(column) / max(1, rows)] * min(rows, 1), draw)
    if isinstance(column, BytesColumn):
        return _bytes_feature(found, column, draw, is_image, is_text and is_single, dtype)
    array = np.asarray(column)
    found.bytes = array.nbytes
    found.values = Numbers.of(array, draw)
    if is_single and array.ndim == 1:
        values, counts = np.unique(array, return_counts=True)
        _count(
            found,
            [f"{value:.6g}" if array.dtype.kind == "f" else str(value) for value in values[: _DISTINCT + 1]],
            counts,
        )
    return found


def _bytes_feature(
    found: FeatureSummary,
    column: BytesColumn,
    draw: np.random.Generator,
    is_image: bool,
    is_text: bool,
    dtype: str | None,
) -> FeatureSummary:
    sizes = column.lengths
    found.bytes, found.lengths = int(sizes.sum()), Numbers.of(sizes, draw)
    if is_image:
        headers = read_headers(column)
        known = headers.width > 0
        found.widths, found.heights = (Numbers.of(side[known], draw) for side in (headers.width, headers.height))
        found.is_open = False
    elif dtype is not None and dtype[0] != "c" and len(column) and (sizes % np.dtype(dtype).itemsize == 0).all():
        data = np.concatenate([np.frombuffer(value, dtype) for value in column])
        found.values, found.is_open = Numbers.of(data, draw), False
    elif is_text:
        texts = Counter(value[:COUNTED_TEXT].decode("utf-8", "backslashreplace") for value in column)
        _count(found, list(texts), np.array(list(texts.values())))
    else:
        found.is_open = False
    return found


def _count(found: FeatureSummary, values: list[str], counts: Any) -> None:
    found.is_open = len(values) <= _DISTINCT
    found.counts = Counter(dict(zip(values[:_DISTINCT], (int(count) for count in counts), strict=False)))


def drift(one: FeatureSummary, other: FeatureSummary) -> float:
    """How far two distributions are apart, from 0 to 1: the share of records that would have to change.

    Of values that are counted one by one, half the sum of the differences of their shares; of numbers, the largest
    difference of the shares below any value.
    """
    if one.is_open and other.is_open and one.counts and other.counts and max(len(one.counts), len(other.counts)) <= 20:
        totals = [max(1, sum(side.counts.values())) for side in (one, other)]
        names = {*one.counts, *other.counts}
        apart = (abs(one.counts[name] / totals[0] - other.counts[name] / totals[1]) for name in names)
        return sum(apart) / 2
    for kinds in (("values",), ("widths", "heights"), ("lengths",)):
        pairs = [(getattr(one, name), getattr(other, name)) for name in kinds]
        if found := [_steps_apart(left.kept, right.kept) for left, right in pairs if left.count and right.count]:
            return max(found)
    return 0.0


def _steps_apart(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    points = np.concatenate([left, right])
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (left, right)]
    return float(np.abs(below[0] - below[1]).max())


def compared(name: str, one: FeatureSummary | None, other: FeatureSummary | None) -> dict[str, Any]:
    """One feature of both sides; numbers in the same steps, so that their histograms can be compared."""
    return {"name": name, "drift": drift(one, other) if one and other else 1.0, **_in_same_steps((one, other))}


def _in_same_steps(sides: Sequence[FeatureSummary | None]) -> dict[str, Any]:
    stated: dict[str, Any] = {"present": [side.present if side is not None else 0 for side in sides]}
    for kind in ("values", "widths", "lengths"):
        numbers = [getattr(side, kind) for side in sides if side is not None and getattr(side, kind).count]
        if numbers:
            low, high = min(n.low for n in numbers), max(n.high for n in numbers)
            stated |= {"kind": kind, "low": low, "high": high}
            stated["bins"] = [getattr(s, kind).histogram(low, high) if s is not None else [] for s in sides]
            stated["means"] = [getattr(s, kind).mean if s is not None else None for s in sides]
            break
    return stated


def side_by_side(name: str, sides: Sequence[FeatureSummary | None], classes: Sequence[str] = ()) -> dict[str, Any]:
    """One feature of all splits, to be seen in one row: shares of the same values, or numbers in the same steps.

    Values are named where the most frequent of them are most of the records; `classes` names codes.
    """
    found = [side for side in sides if side is not None]
    stated = {"name": name, **_in_same_steps(sides), "bytes": sum(side.bytes for side in found)}
    stated["odd"] = sum(side.values.odd for side in found)
    if any(side.widths.count for side in found):
        heights = [side.heights for side in found if side.heights.count]
        stated |= {"heights": [min(one.low for one in heights), max(one.high for one in heights)]}
    counts: Counter[str] = sum((side.counts for side in found), Counter())
    top = [value for value, _ in counts.most_common(_BARS)]
    total = sum(counts.values())
    is_text = bool(counts) and not any(side.values.count for side in found)
    if top and (is_text or len(counts) <= _BARS) and (2 * sum(counts[value] for value in top) >= total):
        each = [side.counts if side is not None else Counter[str]() for side in sides]
        shares = [[count[value] / max(1, sum(count.values())) for value in top] for count in each]
        names = [classes[int(v)] if v.isdecimal() and int(v) < len(classes) else v for v in top]
        stated |= {"kind": "counts", "values": names, "others": len(counts) - len(top), "bins": shares}
    elif is_text:
        stated |= {"kind": "texts", "said": sum(found, FeatureSummary()).texts}
    return stated


def class_counts(opened: Opened, part: OpenedSplit, summary: Summary) -> dict[str, int]:
    """How many records each class has: of all records if the manifest says, otherwise of those looked at."""
    stated = opened.manifest.splits.get(part.name) if opened.manifest else None
    if stated and stated.label_counts:
        return dict(stated.label_counts)
    feature = summary.features.get(opened.label)
    if feature is None or not feature.is_open or len(feature.counts) > 500:
        return {}
    names = opened.classes
    return {
        names[int(code)] if code.isdecimal() and int(code) < len(names) else code: count
        for code, count in feature.counts.most_common()
    }


_TOP = 20  # values that are listed with how often they occur
_QUANTILES = 10


def statistics_pbtxt(paths: Sequence[AnyPath]) -> str:
    """A `DatasetFeatureStatisticsList` as text, with a dataset per split: `tfdv.load_stats_text` reads it."""
    lines = ["# Written by bushel: bushel info --pbtxt"]
    opened = open_all(paths)
    for one in opened:
        one.count()
        for split, part in one.parts.items():
            lines += block("datasets", _split_lines(split if len(opened) == 1 else f"{one.name}/{split}", part))
    return "\n".join(lines) + "\n"


def _split_lines(name: str, part: OpenedSplit) -> Iterator[str]:
    schema = infer_schema(part.paths) if part.paths else part.schema
    if schema.record != "example":
        raise BushelError(f"{name}: statistics of TensorFlow Data Validation are written for Examples alone")
    found = summarise(part)
    yield f"name: {quoted(name)}"
    yield f"num_examples: {found.records}"
    for feature, kind in schema.features.items():
        seen = schema.statistics[feature]
        yield from block("features", _feature_lines(feature, kind, seen, found.features.get(feature, FeatureSummary())))


def _feature_lines(name: str, feature: Feature, seen: FeatureStatistics, found: FeatureSummary) -> Iterator[str]:
    yield f"path {{ step: {quoted(name)} }}"
    total = round(seen.mean_length * sum(seen.kinds.values()))
    common = block("common_stats", _common_lines(seen, total))
    if feature.kind != BYTES_KIND:
        yield f"type: {'INT' if feature.kind == INT_KIND else 'FLOAT'}"
        yield from block("num_stats", [*common, *_number_lines(found.values, seen.nans)])
    elif feature.dtype == "str":
        yield "type: STRING"
        yield from block("string_stats", [*common, *_text_lines(seen, found, total)])
    else:
        yield "type: BYTES"
        yield from block("bytes_stats", [*common, *_size_lines(seen, found, total)])


def _common_lines(seen: FeatureStatistics, total: int) -> Iterator[str]:
    yield f"num_non_missing: {seen.records}"
    yield f"num_missing: {seen.of - seen.records}"
    yield f"min_num_values: {seen.min_length}"
    yield f"max_num_values: {seen.max_length}"
    yield f"avg_num_values: {total / max(1, seen.records)!r}"
    yield f"tot_num_values: {total}"


def _number_lines(numbers: Numbers, nans: int) -> Iterator[str]:
    if not numbers.count:
        return
    yield f"mean: {numbers.mean!r}"
    yield f"std_dev: {numbers.deviation!r}"
    yield f"num_zeros: {numbers.zeros}"
    yield f"min: {numbers.low!r}"
    yield f"median: {float(np.median(numbers.kept))!r}"
    yield f"max: {numbers.high!r}"
    shares = numbers.histogram()
    steps = np.linspace(numbers.low, numbers.high, len(shares) + 1)
    yield from block("histograms", _histogram_lines("STANDARD", nans, steps.tolist(), shares, numbers.count))
    quantiles = np.quantile(numbers.kept, np.linspace(0, 1, _QUANTILES + 1))
    quantiles[[0, -1]] = numbers.low, numbers.high  # which are known of all values
    equal = [1 / _QUANTILES] * _QUANTILES
    yield from block("histograms", _histogram_lines("QUANTILES", nans, quantiles.tolist(), equal, numbers.count))


def _histogram_lines(
    kind: str, nans: int, steps: Sequence[float], shares: Sequence[float], count: int
) -> Iterator[str]:
    yield f"type: {kind}"
    yield f"num_nan: {nans}"
    for low, high, share in zip(steps, steps[1:], shares, strict=False):
        yield f"buckets {{ low_value: {low!r} high_value: {high!r} sample_count: {share * count!r} }}"


def _text_lines(seen: FeatureStatistics, found: FeatureSummary, total: int) -> Iterator[str]:
    yield f"avg_length: {found.bytes / max(1, total)!r}"
    if not found.is_open or not found.counts or (seen.max_size or 0) > COUNTED_TEXT:
        return  # not all values were counted, or only their beginnings
    ranked = found.counts.most_common()
    yield f"unique: {len(ranked)}"
    for value, count in ranked[:_TOP]:
        yield f"top_values {{ value: {quoted(value)} frequency: {count} }}"
    buckets = [
        f"buckets {{ low_rank: {rank} high_rank: {rank} label: {quoted(value)} sample_count: {count} }}"
        for rank, (value, count) in enumerate(ranked)
    ]
    yield from block("rank_histogram", buckets)


def _size_lines(seen: FeatureStatistics, found: FeatureSummary, total: int) -> Iterator[str]:
    yield f"avg_num_bytes: {found.bytes / max(1, total)!r}"
    yield f"min_num_bytes: {seen.min_size or 0}"
    yield f"max_num_bytes: {seen.max_size or 0}"
    yield f"max_num_bytes_int: {seen.max_size or 0}"
