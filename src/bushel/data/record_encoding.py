"""Columns to records: labels as codes, checks, and encoding. Rows that cannot be written are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import UNKNOWN, Labels, hash_values
from bushel.data.column_encoding import Narrowings, Stored, store
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, cut, part_sparse, take
from bushel.data.samples import Sample, features_of
from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema, record_kind, wire_features
from bushel.errors import BushelError

__all__ = ["FRAMING", "Constraint", "FramedRecords", "RecordEncoder", "broken_rows", "stored_schema"]


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
