"""What the samples of a program hold: the features that most of them have, and why one does not fit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel.data.samples import are_images, feature_of, fits
from bushel.data.schema import Feature
from bushel.errors import SchemaMismatch

__all__ = ["Census", "misfit"]

_INT64 = range(-(2**63), 2**63)


@dataclass
class Census:
    """What the values of each name were over all samples: how many of each type and shape."""

    samples: int = 0
    found: dict[str, Counter[tuple[str, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(Counter))
    not_images: set[str] = field(default_factory=set)  # names under which some bytes are not an encoded image

    def add(self, sample: Mapping[str, Any]) -> None:
        """Count one sample; values that cannot be stored are left to `misfit`."""
        self.samples += 1
        for name, value in sample.items():
            if value is None:
                continue
            try:
                kind = feature_of(value, name=name)
            except SchemaMismatch:
                continue
            self.found[name][kind.dtype, kind.shape] += 1  # type: ignore[index]
            if kind.dtype == "bytes" and name not in self.not_images and not are_images(_flat(value)):
                self.not_images.add(name)

    def features(self) -> dict[str, Feature]:
        """The features that hold most samples."""
        return {name: self._feature(name, kinds) for name, kinds in self.found.items()}

    def _feature(self, name: str, kinds: Counter[tuple[str, tuple[int, ...]]]) -> Feature:
        # An empty list is of every type: it says nothing of what the others hold.
        filled = {kind: count for kind, count in kinds.items() if 0 not in kind[1]} or dict(kinds)
        texts = sum(count for (dtype, _), count in filled.items() if dtype in ("str", "bytes"))
        is_number = 2 * texts <= sum(filled.values())
        of_kind = {kind: count for kind, count in filled.items() if (kind[0] in ("str", "bytes")) != is_number}
        empty = {kind: count for kind, count in kinds.items() if kind not in filled}
        names = {dtype for dtype, _ in of_kind}
        dtype = names.pop() if len(names) == 1 else ("float32" if is_number else "bytes")
        encoding = "image" if dtype == "bytes" and name not in self.not_images else "list"
        shape = _common_shape(of_kind | empty)
        return Feature(dtype=dtype, shape=shape, encoding=encoding, required=sum(kinds.values()) == self.samples)


def _flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, bytes) else list(np.asarray(value, object).flat)


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


def misfit(sample: Mapping[str, Any], features: Mapping[str, Feature]) -> str:
    """Why a sample is not of these features; empty if it is."""
    for name, value in sample.items():
        if value is None:
            continue
        try:
            kind = feature_of(value, name=name)
        except SchemaMismatch as error:
            return f"{name}: {error.what}"
        feature = features[name]
        if 0 in kind.shape and fits(kind.shape, feature.shape):
            continue
        is_wider = feature.dtype == "float32" and kind.dtype == "int64"
        is_text = feature.dtype in ("bytes", "str") and kind.dtype in ("bytes", "str")
        if kind.dtype != feature.dtype and not is_wider and not is_text:
            return f"{name}: expected {feature.dtype}, got {kind.dtype}"
        if not fits(kind.shape, feature.shape):
            return f"{name}: expected shape {feature.shape}, got {kind.shape}"
        if feature.dtype == "int64" and isinstance(value, int) and value not in _INT64:
            return f"{name}: {value} does not fit int64"
        if isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.size and int(value.max()) not in _INT64:
            return f"{name}: {value.max()} does not fit int64"
    return ""
