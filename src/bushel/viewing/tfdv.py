"""Statistics of splits as TensorFlow Data Validation reads them: as text, without its package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bushel.data.schema import BYTES_KIND, INT_KIND, Feature, FeatureStatistics
from bushel.data.tf_schema import block, quoted
from bushel.errors import BushelError
from bushel.records.survey import infer_schema
from bushel.storage import AnyPath
from bushel.viewing.opened import OpenedSplit, open_all
from bushel.viewing.statistics import COUNTED_TEXT, FeatureSummary, Numbers, summarise

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
