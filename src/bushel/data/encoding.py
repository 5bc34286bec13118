"""Columns to records: values checked against their features, labels as codes, and encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import UNKNOWN, Labels, hash_values
from bushel.data.columns import (
    Array,
    BytesColumn,
    Column,
    Ragged,
    SparseColumn,
    as_ragged,
    count_of,
    cut,
    part_sparse,
    take,
)
from bushel.data.samples import Sample, empty_column, features_of
from bushel.data.schema import (
    BYTES_KIND,
    FLOAT_KIND,
    IMAGE_ENCODINGS,
    INT_KIND,
    Feature,
    Schema,
    record_kind,
    wire_features,
)
from bushel.errors import BushelError, SchemaMismatch

EXACT_IN_FLOAT = 1 << 24


class Stored(NamedTuple):
    """One column, with its arrays in the order that the core expects."""

    name: str
    sequence: bool
    kind: int
    numbers: Array | None
    ends: NDArray[np.int64] | None
    data: NDArray[np.uint8] | None
    splits: NDArray[np.int64] | None
    width: int
    present: NDArray[np.uint8] | None
    step_splits: NDArray[np.int64] | None

    @property
    def rows(self) -> int:
        """How many records the column is for."""
        if self.step_splits is not None:
            return len(self.step_splits) - 1
        return self.steps

    @property
    def steps(self) -> int:
        """How many Features the column has: one per record, or one per step."""
        if self.splits is not None:
            return len(self.splits) - 1
        values = len(self.numbers) if self.numbers is not None else len(self.ends) - 1  # type: ignore[arg-type]
        return values // self.width if self.width else 0

    def cut(self, begin: int, end: int) -> Stored:
        """The rows [begin, end), without a copy."""
        if self.step_splits is not None:
            return self._replace(step_splits=self.step_splits[begin : end + 1])
        present = None if self.present is None else self.present[begin:end]
        if self.splits is not None:
            return self._replace(splits=self.splits[begin : end + 1], present=present)
        first, last = begin * self.width, end * self.width
        if self.numbers is not None:
            return self._replace(numbers=self.numbers[first:last], present=present)
        assert self.ends is not None
        return self._replace(ends=self.ends[first : last + 1], present=present)


class Narrowings(dict[str, tuple[float, float]]):
    """By feature, the largest difference caused by storing it as float32, and the value where it occurred."""

    def add(self, name: str, largest: float, value: float) -> None:
        """Keep it if it is the largest so far."""
        if largest > self.get(name, (0.0, 0.0))[0]:
            self[name] = (largest, value)

    def merge(self, others: Narrowings) -> None:
        """Keep the largest of each feature."""
        for name, (largest, value) in others.items():
            self.add(name, largest, value)


def store(name: str, feature: Feature, column: Column, narrowings: Narrowings) -> Stored:
    """Check a column against its feature and lay it out for the core."""
    if feature.sequence:
        steps = as_ragged(column)
        inner = msgspec.structs.replace(feature, sequence=False, required=True)
        stored = store(name, inner, steps.values if len(steps.values) else empty_column(inner), narrowings)
        _check_splits(name, steps.row_splits, stored.steps)
        return stored._replace(sequence=True, step_splits=_contiguous(steps.row_splits, np.int64))
    if feature.encoding == "raw":
        return _store_bytes(name, feature, _raw_bytes(name, feature, column))
    if feature.kind == BYTES_KIND:
        return _store_bytes(name, feature, column)
    return _store_numbers(name, feature, column, narrowings)


def _check_splits(name: str, splits: NDArray[np.int64], values: int) -> None:
    """Check what the core relies on: splits must not point beyond the values."""
    if len(splits) == 0 or splits[0] < 0 or splits[-1] > values or (np.diff(splits) < 0).any():
        raise SchemaMismatch(f"the splits of rows do not fit the {values} values there are", at=name)


def _store_numbers(name: str, feature: Feature, column: Column, narrowings: Narrowings) -> Stored:
    splits = present = None
    values: Column = column
    if isinstance(column, Ragged):
        values = column.values
        splits = _contiguous(column.row_splits, np.int64)
        present = _present(name, feature, column)
    if not isinstance(values, np.ndarray) or isinstance(column, BytesColumn):
        raise SchemaMismatch(f"expected {feature.dtype}, got text", at=name)
    _check_shape(name, feature, column)
    inner = count_of(values.shape[1:])
    if splits is not None:
        _check_splits(name, splits, len(values))
        splits = splits * inner
    elif inner == 0:  # rows without values exist only in their splits
        splits = np.zeros(len(values) + 1, np.int64)
    numbers = as_stored_numbers(name, feature, values, narrowings)
    width = inner if splits is None else 0
    kind = feature.kind
    return Stored(name, False, kind, numbers.reshape(-1), None, None, splits, width, present, None)


def _check_shape(name: str, feature: Feature, column: Array | Ragged) -> None:
    if isinstance(column, Ragged):
        assert isinstance(column.values, np.ndarray)
        if not feature.is_ragged and feature.required:
            lengths = column.lengths
            size = feature.shape[0] if feature.shape else 1
            if (bad := np.flatnonzero(lengths != size)).size:
                raise SchemaMismatch(f"expected {size} values, got {lengths[bad[0]]}", at=f"{name}[{bad[0]}]")
        shape: tuple[int | None, ...] = (None, *column.values.shape[1:])
        wanted: tuple[int | None, ...] = (None, *feature.shape[1:])
    else:
        shape, wanted = column.shape[1:], feature.shape
    matches = len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))
    if not matches and not (wanted == () and shape == (1,)):
        raise SchemaMismatch(f"expected rows of shape {feature.shape}, got {tuple(shape)}", at=name)


def _present(name: str, feature: Feature, column: Ragged) -> NDArray[np.uint8] | None:
    if column.present is None or column.present.all():
        return None
    if feature.required:
        raise SchemaMismatch(
            "the feature is required but the record does not have it", at=f"{name}[{int(np.argmin(column.present))}]"
        )
    return np.ascontiguousarray(column.present).view(np.uint8)


def as_stored_numbers(name: str, feature: Feature, values: Array, narrowings: Narrowings) -> Array:
    """Numbers as int64 or float32. Any loss that the feature does not allow is an error."""
    kind = values.dtype.kind
    if kind not in "biuf":
        raise SchemaMismatch(f"expected {feature.dtype}, got {values.dtype}", at=name)
    if feature.cast:
        return _contiguous(values, np.int64 if feature.kind == INT_KIND else np.float32)
    if feature.kind == INT_KIND:
        if kind == "f" and values.size:
            raise SchemaMismatch(f"expected int64, got {values.dtype}", at=name, help=[_ASK_CAST])
        if feature.reads_as == "uint64" and values.dtype == np.uint64:
            return _contiguous(values.view(np.int64), np.int64)
        if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
            raise _loss(name, values, values > np.iinfo(np.int64).max, "does not fit int64")
        return _contiguous(values, np.int64)
    assert feature.kind == FLOAT_KIND
    if kind in "biu":
        wide = values.astype(np.float64)
        if (np.abs(wide) > EXACT_IN_FLOAT).any():
            raise _loss(name, values, np.abs(wide) > EXACT_IN_FLOAT, "is beyond 2^24, where float32 skips integers")
        return _contiguous(values, np.float32)
    return _narrow(name, values, narrowings)


_ASK_CAST = "To cast it on purpose: Feature(dtype=..., cast=True)."


def _narrow(name: str, values: Array, narrowings: Narrowings) -> Array:
    if values.dtype.itemsize <= 4:
        return _contiguous(values, np.float32)
    with np.errstate(over="ignore"):
        narrow = _contiguous(values, np.float32)
    if (lost := np.isinf(narrow) & ~np.isinf(values)).any():
        raise _loss(name, values, lost, "does not fit float32")
    with np.errstate(invalid="ignore"):
        difference = np.nan_to_num(np.abs(values - narrow), nan=0.0, posinf=0.0)
    if difference.size and (largest := float(difference.max())) > 0:
        narrowings.add(name, largest, float(values.reshape(-1)[int(difference.argmax())]))
    return narrow


def _loss(name: str, values: Array, lost: NDArray[np.bool_], why: str) -> SchemaMismatch:
    place = np.unravel_index(int(np.argmax(lost)), values.shape)
    at = name + "".join(f"[{i}]" for i in place)
    return SchemaMismatch(f"{values[place]} {why}", at=at, help=[_ASK_CAST])


def _store_bytes(name: str, feature: Feature, column: Column) -> Stored:
    splits = present = None
    values: Column = column
    if isinstance(column, Ragged):
        splits = _contiguous(column.row_splits, np.int64)
        values = column.values
        present = _present(name, feature, column)
    while isinstance(values, Ragged) and splits is not None:  # text of more than one dimension
        _check_splits(name, splits, len(values))
        splits, values = _contiguous(values.row_splits, np.int64)[splits], values.values
    if isinstance(values, np.ndarray) and not values.size:
        splits = np.zeros(len(values) + 1, np.int64) if splits is None else splits
        values = BytesColumn.of([])
    if not isinstance(values, BytesColumn):
        raise SchemaMismatch(f"expected {feature.dtype}, got numbers", at=name)
    if splits is None and not feature.is_ragged and _width(feature) != 1 and len(values):
        raise SchemaMismatch(f"expected {_width(feature)} values, got 1", at=f"{name}[0]")
    if splits is not None:
        _check_splits(name, splits, len(values))
        lengths = np.diff(splits)
        if not feature.is_ragged and feature.required and (bad := np.flatnonzero(lengths != _width(feature))).size:
            raise SchemaMismatch(f"expected {_width(feature)} values, got {lengths[bad[0]]}", at=f"{name}[{bad[0]}]")
    _check_splits(name, values.offsets, len(values.data))
    ends, data = _contiguous(values.offsets, np.int64), _contiguous(values.data, np.uint8)
    return Stored(name, False, BYTES_KIND, None, ends, data, splits, 1 if splits is None else 0, present, None)


def _width(feature: Feature) -> int:
    return 1 if feature.is_one_value else count_of(feature.shape)


def _raw_bytes(name: str, feature: Feature, column: Column) -> BytesColumn:
    dtype = np.dtype(feature.dtype).newbyteorder("<")
    values = column.values if isinstance(column, Ragged) else column
    if not isinstance(values, np.ndarray):
        raise SchemaMismatch(f"expected {feature.dtype}, got text", at=name)
    if not feature.cast:
        _check_lossless(name, values, dtype)
    if isinstance(column, Ragged) and not feature.is_ragged:
        raise SchemaMismatch(f"expected rows of shape {feature.shape}, got rows of different lengths", at=name)
    _check_shape(name, feature, column)  # type: ignore[arg-type]
    data = np.ascontiguousarray(values, dtype)
    row_size = dtype.itemsize * count_of(values.shape[1:])
    ends = column.row_splits * row_size if isinstance(column, Ragged) else np.arange(len(values) + 1) * row_size
    return BytesColumn(ends, data.reshape(-1).view(np.uint8))


def _check_lossless(name: str, values: Array, dtype: np.dtype[Any]) -> None:
    if np.can_cast(values.dtype, dtype, "safe"):
        return
    # Python's numbers arrive as int64 and float64: their values decide.
    if values.dtype.kind not in "biuf" or (values.dtype.kind == "f" and dtype.kind != "f"):
        raise SchemaMismatch(f"expected {dtype.name}, got {values.dtype}", at=name, help=[_ASK_CAST])
    with np.errstate(all="ignore"):
        changed = values.astype(dtype).astype(values.dtype) != values
    if values.dtype.kind == "f":
        changed &= ~np.isnan(values)
    if changed.any():
        raise _loss(name, values, changed, f"does not fit {dtype.name}")


def _contiguous(array: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(array, dtype)


class Constraint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the values of one feature must be; a sample that breaks it is refused."""

    min: float | None = None
    max: float | None = None
    values: list[int | str] | None = None  # the only ones that are allowed
    finite: bool = True  # neither NaN nor infinite
    non_empty: bool = False  # no empty text, no empty list


Refusal: TypeAlias = tuple[int, str]  # row, why
Broken: TypeAlias = Iterator[Refusal]
_USUAL = Constraint()


def broken_rows(name: str, feature: Feature, column: Column, constraint: Constraint = _USUAL) -> Broken:
    """Rows whose values break a constraint of the recipe, or are always wrong."""
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, BytesColumn):
        yield from _broken_texts(name, feature, column, values, constraint)
    elif isinstance(values, np.ndarray):
        yield from _broken_numbers(name, column, values, constraint)
    if isinstance(column, Ragged) and constraint.non_empty:
        there = np.ones(len(column), bool) if column.present is None else column.present
        yield from ((int(row), f"{name} is an empty list") for row in np.flatnonzero(there & (column.lengths == 0)))


def _broken_numbers(name: str, column: Column, values: NDArray[Any], constraint: Constraint) -> Broken:
    if constraint.finite and values.dtype.kind == "f" and not (is_finite := np.isfinite(values)).all():
        help = f"constraints.{name}.finite = false allows it"
        yield from _each(column, values, ~is_finite, f"{name} is {{}} ({help})")
    if constraint.min is not None and (below := values < constraint.min).any():
        yield from _each(column, values, below, f"{name} is {{}}, below {constraint.min:g}")
    if constraint.max is not None and (above := values > constraint.max).any():
        yield from _each(column, values, above, f"{name} is {{}}, above {constraint.max:g}")
    if constraint.values is not None:
        allowed = np.array([value for value in constraint.values if isinstance(value, int)])
        if not (known := np.isin(values, allowed)).all():
            yield from _each(column, values, ~known, f"{name} is {{}}, which is none of the values allowed")


def _broken_texts(name: str, feature: Feature, column: Column, values: BytesColumn, constraint: Constraint) -> Broken:
    if (constraint.non_empty or feature.encoding in IMAGE_ENCODINGS) and not (filled := values.lengths > 0).all():
        yield from _each(column, values, ~filled, f"{name} is empty")
    if feature.dtype == "str":
        bad = np.zeros(len(values), bool)
        bad[list(_undecodable(values))] = True
        yield from _each(column, values, bad, f"{name} is not UTF-8")
    if constraint.values is not None:
        allowed = hash_values(BytesColumn.of([value for value in constraint.values if isinstance(value, str)]))
        if not (known := np.isin(hash_values(values), allowed)).all():
            yield from _each(column, values, ~known, f"{name} is {{}}, which is none of the values allowed")


def _each(column: Column, values: Any, bad: NDArray[np.bool_], why: str) -> Broken:
    places = np.flatnonzero(bad.reshape(len(values), -1).any(axis=1)) if len(values) else np.empty(0, np.int64)
    for place in places.tolist():
        row = place
        if isinstance(column, Ragged):
            row = int(np.searchsorted(column.row_splits, place, side="right")) - 1
        value = values[place]
        if isinstance(value, np.ndarray):
            value = value[bad[place]].reshape(-1)[0]
        yield row, why.format(repr(value.decode(errors="replace")) if isinstance(value, bytes) else value)


def _undecodable(values: BytesColumn) -> Iterator[int]:
    """Texts that are not UTF-8. Usually all are, which one check shows."""
    if not len(values):
        return
    first, last = int(values.offsets[0]), int(values.offsets[-1])
    data = values.data[first:last]
    starts = values.offsets[:-1][values.lengths > 0] - first
    try:
        data.tobytes().decode()
        if not ((data[starts] & 0xC0) == 0x80).any():
            return
    except UnicodeDecodeError:
        pass
    for row in range(len(values)):
        try:
            values[row].decode()
        except UnicodeDecodeError:
            yield row


FRAMING = 16


@dataclass(frozen=True)
class FramedRecords:
    """Records as a file holds them, one after the other in memory."""

    rows: NDArray[np.int64]  # in their partition
    data: Any
    lengths: NDArray[np.int64]  # in bytes, including framing
    labels: NDArray[Any] | None


@dataclass(frozen=True)
class RecordEncoder:
    """Turns columns into records of a schema. A value."""

    schema: Schema
    labels: Labels | None = None
    constraints: Mapping[str, Constraint] = field(default_factory=dict)

    def coded(self, columns: dict[str, Column]) -> tuple[dict[str, Column], list[Refusal]]:
        """The columns with labels as codes, and the rows whose label cannot be used."""
        if self.labels is None or self.labels.feature not in columns:
            return columns, []
        given = columns[self.labels.feature]
        return {**columns, self.labels.feature: self.labels.encode(given)}, self._bad_labels(given)

    def _bad_labels(self, column: Column) -> list[Refusal]:
        assert self.labels is not None
        name = self.labels.feature
        bad: list[Refusal] = []
        if isinstance(column, Ragged) and column.present is not None:
            bad += [(int(place), f"{name} is missing") for place in np.flatnonzero(~column.present)]
        coded = self.labels.encode(column)
        if not self.labels.is_text:
            return bad
        codes = coded.values if isinstance(coded, Ragged) else coded
        for at in np.flatnonzero(np.asarray(codes) == UNKNOWN).tolist():
            values = column.values if isinstance(column, Ragged) else column
            place = at if not isinstance(column, Ragged) else int(np.searchsorted(column.row_splits, at, "right")) - 1
            text = values[at]
            what = f"{name} is empty" if not text else f"{name} {text!r} is not a class of the dataset"
            bad.append((place, what))
        return bad

    def encode(
        self, columns: dict[str, Column], rows: NDArray[np.int64], left_out: set[int], narrowings: Narrowings
    ) -> tuple[FramedRecords | None, list[Refusal]]:
        """The records of all rows, except those left out and those that cannot be stored, with the reason for these."""
        columns = _on_wire(columns)
        stored, refused = self._stored(columns, len(rows), narrowings)
        kept, places = np.ones(len(rows), bool), np.arange(len(rows))
        kept[[*left_out, *(place for place, _ in refused)]] = False
        features = {name: feature for name, feature in wire_features(self.schema.features).items() if name in columns}
        if kept.any() and stored.keys() < features.keys():  # some column can only be stored without the rows at fault
            places = np.flatnonzero(kept)
            columns = {name: take(column, places) for name, column in columns.items()}
            stored = {
                name: store(name, feature, columns[name], Narrowings() if name in stored else narrowings)
                for name, feature in features.items()
            }
            kept = kept[places]
        while kept.any():
            order = None if kept.all() else np.flatnonzero(kept)
            encoded: Any = _native.encode(list(stored.values()), len(places), 1, order)
            if isinstance(encoded, int):
                at = encoded if order is None else int(order[encoded])
                refused.append((int(places[at]), "the record is larger than 2 GiB"))
                kept[at] = False
                continue
            lengths = encoded[1].astype(np.int64) + FRAMING
            labels = self._label_values(columns, order)
            return FramedRecords(rows[places[kept]], encoded[0][0], lengths, labels), refused
        return None, refused

    def _stored(
        self, columns: dict[str, Column], rows: int, narrowings: Narrowings
    ) -> tuple[dict[str, Stored], list[Refusal]]:
        """The columns that can be stored completely, and the rows that break the schema or a constraint."""
        refused: list[Refusal] = []
        stored: dict[str, Stored] = {}
        for name, feature in wire_features(self.schema.features).items():
            if name not in columns:
                if feature.required:
                    why = f"{name} is required but the sample does not have it"
                    refused += [(place, why) for place in range(rows)]
                continue
            column = columns[name]
            broken = list(broken_rows(name, feature, column, self.constraints.get(name, Constraint())))
            try:
                stored[name] = store(name, feature, column, narrowings)
            except BushelError:
                broken += _rows_not_stored(name, feature, column, 0)
            refused += broken
        return stored, refused

    def _label_values(self, columns: dict[str, Column], rows: NDArray[np.int64] | None) -> NDArray[Any] | None:
        if self.labels is None or self.labels.feature not in columns or self.labels.task == "multi_label":
            return None
        column = columns[self.labels.feature]
        column = column if rows is None else take(column, rows)
        values = column.values if isinstance(column, Ragged) else column
        if not isinstance(values, np.ndarray) or values.size != len(column):
            return None
        return values.reshape(-1).astype(np.float64 if self.labels.task == "regression" else np.int64)


def _on_wire(columns: Mapping[str, Any]) -> dict[str, Column]:
    """Sparse columns as two lists, as they are in records."""
    found: dict[str, Column] = {}
    for name, column in columns.items():
        found.update(part_sparse(name, column) if isinstance(column, SparseColumn) else {name: column})
    return found


def _rows_not_stored(name: str, feature: Feature, column: Column, first: int) -> list[Refusal]:
    """Rows that cannot be stored, found by halving."""
    try:
        store(name, feature, column, Narrowings())
        return []
    except BushelError as error:
        if len(column) == 1:
            return [(first, error.message)]
    half = len(column) // 2
    return [
        *_rows_not_stored(name, feature, cut(column, 0, half), first),
        *_rows_not_stored(name, feature, cut(column, half, len(column)), first + half),
    ]


def stored_schema(source_schema: Schema, labels: Labels | None, transformed: list[Sample] | None) -> Schema:
    """The schema of records: labels as codes, and the features of the probed samples after transforms."""
    features = dict(source_schema.features)
    if labels is not None and labels.feature in features:
        features[labels.feature] = labels.stored(features[labels.feature])
    if transformed is not None:
        features = features_of(transformed, features)
    features = dict(sorted(features.items(), key=lambda pair: pair[0].encode()))
    return msgspec.structs.replace(source_schema, features=features, record=record_kind(features), statistics={})
