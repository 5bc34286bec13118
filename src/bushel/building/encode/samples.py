"""Columns to samples and back, for transforms, which change one sample at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, SparseRow
from bushel.data.schema import RAW_DTYPES, Feature, Shape, feature_of
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.records.scan import Sample

__all__ = ["check_sample", "features_of", "to_columns", "to_sample"]


def to_sample(columns: Mapping[str, Column], row: int, features: Mapping[str, Feature]) -> Sample:
    """One row of columns as a sample; a feature that the row lacks is not in it."""
    sample: Sample = {}
    for name, column in columns.items():
        if isinstance(column, Ragged) and column.present is not None and not column.present[row]:
            continue
        value: Any = column[row]
        feature = features[name]
        if isinstance(value, BytesColumn):
            value = value.to_list()
            value = [text.decode() for text in value] if feature.dtype == "str" else value
        elif isinstance(value, bytes) and feature.dtype == "str":
            value = value.decode()
        if isinstance(column, Ragged) and feature.shape == () and not feature.sequence and len(value) == 1:
            value = value[0]
        sample[name] = value.item() if isinstance(value, np.generic) else value
    return sample


def check_sample(sample: Sample, features: Mapping[str, Feature]) -> Sample:
    """The sample with its numbers as arrays; raises `SchemaMismatch` if it is not what the features say."""
    if not sample:
        raise SchemaMismatch("the sample holds nothing", at="sample")
    checked: Sample = {}
    for name, value in sample.items():
        if name not in features:
            raise MissingName("feature", name, features, where="sample")
        feature = features[name]
        if isinstance(value, SparseRow) or feature.encoding == "sparse":
            checked[name] = _check_sparse(value, feature, name)
            continue
        is_text = feature.dtype in ("bytes", "str")
        array = np.asarray(value, object if is_text else None)
        wanted = (None, *feature.shape) if feature.sequence else feature.shape
        if not _fits(array.shape, wanted) or (not is_text and array.dtype.kind not in "biufc"):
            found = f"{array.dtype} of shape {array.shape}" if not is_text else f"shape {array.shape}"
            raise SchemaMismatch(f"expected {feature.describe()}, got {found}", at=name)
        if is_text and not all(isinstance(text, bytes | str) for text in array.reshape(-1).tolist()):
            raise SchemaMismatch(f"expected {feature.dtype}, got {type(value).__name__}", at=name)
        checked[name] = array
    for name, feature in features.items():
        if feature.encoding == "sparse" and feature.required and name not in sample:
            raise SchemaMismatch(f"{name} is required but the sample does not have it", at=name)
    return checked


def _check_sparse(value: Any, feature: Feature, name: str) -> SparseRow:
    if not isinstance(value, SparseRow) or feature.encoding != "sparse" or (value.size,) != feature.shape:
        found = f"sparse of size {value.size}" if isinstance(value, SparseRow) else type(value).__name__
        raise SchemaMismatch(f"expected {feature.describe()}, got {found}", at=name)
    return value


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w in (None, s) for s, w in zip(shape, wanted, strict=True))


def to_columns(samples: Sequence[Sample], features: Mapping[str, Feature]) -> dict[str, Column]:
    """Checked samples as columns."""
    columns: dict[str, Column] = {}
    for name, feature in features.items():
        values = [sample.get(name) for sample in samples]
        present = np.array([value is not None for value in values])
        if feature.encoding == "sparse":
            columns[name] = _sparse(values, feature)  # type: ignore[assignment]
            continue
        if feature.sequence:  # steps, as many as each sample has
            columns[name] = _ragged(values, present, feature, name)
        elif present.all() and not feature.is_ragged and feature.dtype not in ("bytes", "str"):
            columns[name] = np.stack(values) if values else np.empty((0, *feature.shape))  # type: ignore[arg-type]
        elif present.all() and feature.shape == ():
            columns[name] = BytesColumn.of([value.item() for value in values if value is not None])
        else:
            columns[name] = _ragged(values, present, feature, name)
    return columns


def _sparse(values: Sequence[Any], feature: Feature) -> SparseColumn:
    empty = SparseRow(np.empty(0, np.int64), np.empty(0, feature.dtype), feature.shape[0] or 0)
    column = SparseColumn.of([empty, *(empty if value is None else value for value in values)])
    return column[1:]


def _ragged(values: Sequence[Any], present: Any, feature: Feature, name: str) -> Ragged:
    there = [value.reshape(-1 if value.ndim == 0 else value.shape) for value in values if value is not None]
    lengths = np.zeros(len(values), np.int64)
    lengths[present] = [len(value) for value in there]
    splits = np.concatenate([[0], np.cumsum(lengths)])
    flat: Column
    if feature.dtype in ("bytes", "str"):
        flat = BytesColumn.of([text for value in there for text in value.reshape(-1).tolist()])
    else:
        _check_sides({value.shape for value in there}, name)
        flat = np.concatenate(there) if there else np.empty(0, np.float32)
    return Ragged(flat, splits, None if present.all() else present)


def _check_sides(shapes: set[Shape], name: str) -> None:
    if len({shape[1:] for shape in shapes}) > 1:
        one, other = sorted(shapes, key=lambda shape: shape[1:])[:: len(shapes) - 1]
        raise SchemaMismatch(
            f"arrays may differ in their first side alone, got {list(one)} and {list(other)}",
            at=name,
            help=["Images: resize them to one size and one number of channels (convert_colour), or store them encoded"],
        )


def features_of(samples: Sequence[Sample], before: Mapping[str, Feature]) -> dict[str, Feature]:
    """What features samples have after transforms: as before where they still fit, else what the samples show."""
    found: dict[str, Feature] = {}
    for name in sorted({name for sample in samples for name in sample}):
        values = [sample[name] for sample in samples if name in sample]
        old = before.get(name)
        required = len(values) == len(samples) and (old is None or old.required)
        if old is not None and all(_is_still(value, old) for value in values) and _is_of_kind(values, old):
            found[name] = old
            continue
        kinds = [_feature_of(value, name) for value in values]
        filled = [kind for kind in kinds if 0 not in kind.shape] or kinds  # an empty list has no type
        dtypes = {kind.dtype for kind in filled}
        if dtypes == {"int64", "float32"}:  # whole numbers among floats
            dtypes = {"float32"}
        if len(dtypes) > 1 or len({len(kind.shape) for kind in kinds}) > 1:
            said = ", ".join(sorted({kind.describe() for kind in filled})[:3])
            raise SchemaMismatch(f"the samples probed hold values of different types: {said}", at=name)
        sizes = list(zip(*(kind.shape for kind in kinds), strict=True))
        shape = tuple(size[0] if len(set(size)) == 1 else None for size in sizes)
        if None in shape[1:]:
            _check_sides({kind.shape for kind in kinds}, name)
        found[name] = Feature(dtype=dtypes.pop(), shape=shape, encoding=filled[0].encoding, required=required)
    return found


def _feature_of(value: Any, name: str) -> Feature:
    """As `feature_of`, but arrays of other types than int64 and floats keep them: pixels stay bytes."""
    if isinstance(value, SparseRow):
        dtype = "float32" if value.values.dtype.kind == "f" else "int64"
        return Feature(dtype=dtype, shape=(value.size,), encoding="sparse")
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.name in _KEPT:
        return Feature(dtype=value.dtype.name, shape=value.shape, encoding="raw")
    return feature_of(value, name=name)


_KEPT = set(RAW_DTYPES) - {"int64", "float32", "float64"}


def _is_still(value: Any, feature: Feature) -> bool:
    try:
        check_sample({"value": value}, {"value": feature})
    except (BushelError, ValueError):
        return False
    return True


def _is_of_kind(values: Sequence[Any], feature: Feature) -> bool:
    """Whether numbers are still integers, or still floats; one that is makes floats of all."""
    if feature.dtype in ("bytes", "str") or feature.encoding == "sparse":
        return True
    return any(np.asarray(value).dtype.kind == "f" for value in values) == feature.dtype.startswith("float")
