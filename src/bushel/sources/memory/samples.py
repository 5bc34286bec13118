"""Samples as Python has them (dicts of values) to columns; those that do not fit are told one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.schema import Feature, feature_of
from bushel.errors import SchemaMismatch

__all__ = ["Census", "feature_of_value", "misfit", "to_columns"]

_INT64 = range(-(2**63), 2**63)


@dataclass
class Census:
    """What the values of each name were over all samples: how many of each type and shape."""

    samples: int = 0
    found: dict[str, Counter[tuple[str, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, sample: Mapping[str, Any]) -> None:
        """Count one sample; values that cannot be stored are left to `misfit`."""
        self.samples += 1
        for name, value in sample.items():
            if value is None:
                continue
            try:
                kind = feature_of_value(value, name=name)
            except SchemaMismatch:
                continue
            self.found[name][kind.dtype, kind.shape] += 1  # type: ignore[index]

    def features(self) -> dict[str, Feature]:
        """The features that hold most samples."""
        return {name: self._feature(kinds) for name, kinds in self.found.items()}

    def _feature(self, kinds: Counter[tuple[str, tuple[int, ...]]]) -> Feature:
        # An empty list is of every type: it says nothing of what the others hold.
        filled = {kind: count for kind, count in kinds.items() if 0 not in kind[1]} or dict(kinds)
        texts = sum(count for (dtype, _), count in filled.items() if dtype in ("str", "bytes"))
        is_number = 2 * texts <= sum(filled.values())
        of_kind = {kind: count for kind, count in filled.items() if (kind[0] in ("str", "bytes")) != is_number}
        empty = {kind: count for kind, count in kinds.items() if kind not in filled}
        names = {dtype for dtype, _ in of_kind}
        dtype = names.pop() if len(names) == 1 else ("float32" if is_number else "bytes")
        return Feature(dtype=dtype, shape=_common_shape(of_kind | empty), required=sum(kinds.values()) == self.samples)


def _common_shape(kinds: Mapping[tuple[str, tuple[int, ...]], int]) -> tuple[int | None, ...]:
    counts: Counter[tuple[int, ...]] = Counter()
    for (_, shape), count in kinds.items():
        counts[shape] += count
    if len(counts) == 1:
        return next(iter(counts))
    inner = {shape[1:] for shape in counts if shape}
    if len(inner) == 1 and () not in counts:
        return (None, *inner.pop())
    return counts.most_common(1)[0][0]


def feature_of_value(value: Any, *, name: str) -> Feature:
    """The feature that one value makes. Raises `SchemaMismatch` for what cannot be stored."""
    if isinstance(value, list | tuple | np.ndarray) and len(value) == 0:
        return Feature(dtype="float32", shape=np.shape(value))  # nothing is of every type
    kind = feature_of(value, name=name)
    if kind.dtype in ("str", "bytes") and not isinstance(value, str | bytes):
        array = np.asarray(value, object)
        for inner in array.flat:
            if not isinstance(inner, str | bytes):
                raise SchemaMismatch(f"a value of type {type(inner).__name__} cannot be stored", at=name)
    return kind


def misfit(sample: Mapping[str, Any], features: Mapping[str, Feature]) -> str:
    """Why a sample is not of these features; empty if it is."""
    for name, value in sample.items():
        if value is None:
            continue
        try:
            kind = feature_of_value(value, name=name)
        except SchemaMismatch as error:
            return f"{name}: {error.what}"
        feature = features[name]
        if 0 in kind.shape and _fits(kind.shape, feature.shape):
            continue
        is_wider = feature.dtype == "float32" and kind.dtype == "int64"
        is_text = feature.dtype in ("bytes", "str") and kind.dtype in ("bytes", "str")
        if kind.dtype != feature.dtype and not is_wider and not is_text:
            return f"{name}: expected {feature.dtype}, got {kind.dtype}"
        if not _fits(kind.shape, feature.shape):
            return f"{name}: expected shape {feature.shape}, got {kind.shape}"
        if feature.dtype == "int64" and isinstance(value, int) and value not in _INT64:
            return f"{name}: {value} does not fit int64"
        if isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.size and int(value.max()) not in _INT64:
            return f"{name}: {value.max()} does not fit int64"
    return ""


def _fits(shape: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))


def to_columns(samples: Sequence[Mapping[str, Any]], features: Mapping[str, Feature]) -> dict[str, Column]:
    """Samples that fit, as columns."""
    return {name: _column([sample.get(name) for sample in samples], feature) for name, feature in features.items()}


def _column(values: list[Any], feature: Feature) -> Column:
    there = np.array([value is not None for value in values], bool)
    some = [value for value in values if value is not None]
    if feature.shape == ():
        flat = _flat(some, feature)
        if there.all() and len(there):
            return flat
        splits = np.zeros(len(values) + 1, np.int64)
        np.cumsum(there, out=splits[1:])
        return Ragged(flat, splits, there)
    is_number = feature.dtype in ("int64", "float32")
    if there.all() and not feature.is_ragged and is_number:
        return _numbers(some, feature).reshape(len(some), *(size or 0 for size in feature.shape))
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    splits = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    inner: Column
    if is_number:
        parts = [np.asarray(value) for value in some if len(value)]
        empty = np.empty((0, *(size or 0 for size in feature.shape[1:])), _dtype(feature))
        inner = np.concatenate(parts) if parts else empty
    else:
        inner = BytesColumn.of([part for value in some for part in value])
    return Ragged(inner, splits, None if there.all() else there)


def _flat(values: list[Any], feature: Feature) -> Column:
    if feature.dtype in ("bytes", "str"):
        return BytesColumn.of([value.item() if isinstance(value, np.ndarray) else value for value in values])
    return _numbers(values, feature)


def _numbers(values: list[Any], feature: Feature) -> np.ndarray[Any, Any]:
    array = np.asarray(values) if values else np.empty(0, _dtype(feature))
    return array.astype(np.int64) if array.dtype == np.uint64 else array


def _dtype(feature: Feature) -> Any:
    return np.float64 if feature.dtype == "float32" else np.int64
