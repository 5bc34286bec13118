"""Blocks of samples to records: encode labels, transform, check, encode. Rows that cannot be written are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.recipe import Constraint
from bushel.data.categories import UNKNOWN, Labels, hash_values
from bushel.data.column_encoding import Narrowings, Stored, store
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, cut, part_sparse, take
from bushel.data.samples import Sample, check_sample, features_of, sample_at, to_columns
from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema, record_kind, wire_features
from bushel.errors import BushelError, MissingName, SchemaMismatch, reason_of
from bushel.sources.protocol import Block, Refused
from bushel.transforms import Transform
from bushel.transforms.chain import Chain
from bushel.transforms.protocol import is_in_core

__all__ = ["BlockEncoder", "Encoded", "FramedRecords", "broken_rows", "stored_schema"]


Broken = Iterator[tuple[int, str]]  # row, why
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


class Encoded(NamedTuple):
    """The records of a block, what was refused, and what was lost on the way."""

    records: FramedRecords | None  # None if all were refused
    refused: list[Refused]
    counted: Counter[str]  # what transforms cut or did not know
    narrowings: Narrowings


@dataclass(frozen=True)
class BlockEncoder:
    """Turns blocks into records by a recipe. It is a value: use `dataclasses.replace` to change it."""

    source_schema: Schema
    schema: Schema
    labels: Labels | None = None
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    transforms: Sequence[Transform] = ()
    seed: int = 0
    augment: Sequence[Transform] = ()  # for repeated samples, after the transforms

    @property
    def chain(self) -> Chain:
        """The transforms of every sample."""
        return Chain.of(self.transforms, self.seed)

    @property
    def variation(self) -> Chain:
        """The changes to repeated samples, after the transforms."""
        return Chain.of(self.augment, self.seed, first=len(self.transforms))

    def encode(
        self,
        block: Block,
        hashes: NDArray[np.uint64],
        wanted: NDArray[np.bool_],
        known: Mapping[int, Sample] = MappingProxyType({}),
    ) -> Encoded:
        """The records of the wanted rows, and the refused ones; `hashes` are those of the rows' keys.

        `known` are samples that are already transformed, by the hash of their key.
        """
        rows = np.asarray(block.rows, np.int64)
        columns, refused = self.coded(block)
        refused = [(place, why) for place, why in refused if wanted[place]]
        places = np.arange(len(rows))
        left_out = set(np.flatnonzero(~wanted).tolist())
        counted, narrowings = Counter[str](), Narrowings()
        varies = block.is_repeat and bool(self.augment)
        if self.transforms or varies:
            places = _without(np.flatnonzero(wanted), refused)
            changed = None if varies else self._transform_columns(columns, places, counted)
            if changed is None:
                variation = self.variation if varies else None
                changed, failed = self._transform_samples(columns, places, hashes, known, variation, counted)
                refused += failed
                places = _without(places, failed)
            columns, left_out = changed, set()
        else:
            left_out |= {place for place, _ in refused}
        records, broken = self._encode_rows(columns, rows[places], left_out, narrowings)
        refused += [(int(places[at]), why) for at, why in broken]
        return Encoded(records, _one_each(refused, rows, wanted), counted, narrowings)

    def _encode_rows(
        self, columns: dict[str, Column], rows: NDArray[np.int64], left_out: set[int], narrowings: Narrowings
    ) -> tuple[FramedRecords | None, list[tuple[int, Refused]]]:
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
                refused.append((int(places[at]), _refusal("schema", "the record is larger than 2 GiB")))
                kept[at] = False
                continue
            lengths = encoded[1].astype(np.int64) + FRAMING
            labels = self._label_values(columns, order)
            return FramedRecords(rows[places[kept]], encoded[0][0], lengths, labels), refused
        return None, refused

    def coded(self, block: Block) -> tuple[dict[str, Column], list[tuple[int, Refused]]]:
        """The columns of a block with labels as codes, and the places whose label cannot be used."""
        features = self.source_schema.features
        for name in block.columns:
            if name not in features:
                raise MissingName("feature", name, features, where="source")
        if self.labels is None or self.labels.feature not in block.columns:
            return block.columns, []
        given = block.columns[self.labels.feature]
        refused = [(place, _refusal("schema", why)) for place, why in self._bad_labels(given)]
        return {**block.columns, self.labels.feature: self.labels.encode(given)}, refused

    def _bad_labels(self, column: Column) -> list[tuple[int, str]]:
        assert self.labels is not None
        name = self.labels.feature
        bad: list[tuple[int, str]] = []
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

    def _transform_samples(
        self,
        columns: dict[str, Column],
        places: NDArray[np.int64],
        hashes: NDArray[np.uint64],
        known: Mapping[int, Sample],
        variation: Chain | None,
        counted: Counter[str],
    ) -> tuple[dict[str, Any], list[tuple[int, Refused]]]:
        """The samples at these places after their transforms, as columns, and those that could not be transformed."""
        chain = self.chain
        features: Mapping[str, Feature] = self.coded_features()
        columns = _taken(columns, places)
        if not known and not all(is_in_core(step) for step in self.transforms):  # whole columns were tried before
            columns, features, chain = chain.begin(columns, features, counted)
        samples, refused = [], []
        for at, place in enumerate(places.tolist()):
            key_hash, noted = int(hashes[place]), Counter[str]()
            try:
                sample = known.get(key_hash)
                if sample is None:
                    sample = chain.apply(sample_at(columns, features, at), record=key_hash, counted=noted)
                if variation is not None:
                    sample = variation.vary(sample, record=key_hash, counted=noted)
                samples.append(check_sample(sample, self.schema.features))
                counted.update(noted)
            except SchemaMismatch as error:
                refused.append((place, _refusal("schema", error.message)))
            except Exception as error:  # any error counts against this sample, unless all samples fail
                refused.append((place, _refusal("transform", reason_of(error))))
        return to_columns(samples, self.schema.features), refused

    def _transform_columns(
        self, columns: dict[str, Column], places: NDArray[np.int64], counted: Counter[str]
    ) -> dict[str, Column] | None:
        """All rows at once, if every transform can do that and no row is at fault."""
        noted = Counter[str]()
        changed = self.chain.apply_columns(_taken(columns, places), noted)
        if changed is None or not all(name in self.schema for name in changed):
            return None
        counted.update(noted)
        return changed

    def coded_features(self) -> dict[str, Feature]:
        """The features of the source, with the encoded label."""
        features = dict(self.source_schema.features)
        if self.labels is not None and self.labels.feature in features:
            features[self.labels.feature] = self.labels.stored(features[self.labels.feature])
        return features

    def _stored(
        self, columns: dict[str, Column], rows: int, narrowings: Narrowings
    ) -> tuple[dict[str, Stored], list[tuple[int, Refused]]]:
        """The columns that can be stored completely, and the rows that break the schema or a constraint."""
        refused: list[tuple[int, Refused]] = []
        stored: dict[str, Stored] = {}
        for name, feature in wire_features(self.schema.features).items():
            if name not in columns:
                if feature.required:
                    why = f"{name} is required but the sample does not have it"
                    refused += [(place, _refusal("schema", why)) for place in range(rows)]
                continue
            column = columns[name]
            broken = list(broken_rows(name, feature, column, self.constraints.get(name, Constraint())))
            try:
                stored[name] = store(name, feature, column, narrowings)
            except BushelError:
                broken += _rows_not_stored(name, feature, column, 0)
            refused += [(place, _refusal("schema", why)) for place, why in broken]
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


def _taken(columns: dict[str, Column], places: NDArray[np.int64]) -> dict[str, Column]:
    """Only these places of the columns, which are in order."""
    rows = len(next(iter(columns.values()))) if columns else 0
    return columns if len(places) == rows else {name: take(column, places) for name, column in columns.items()}


def _on_wire(columns: Mapping[str, Any]) -> dict[str, Column]:
    """Sparse columns as two lists, as they are in records."""
    found: dict[str, Column] = {}
    for name, column in columns.items():
        found.update(part_sparse(name, column) if isinstance(column, SparseColumn) else {name: column})
    return found


def _refusal(stage: str, why: str) -> Refused:
    return Refused(-1, stage, why)


def _without(places: NDArray[np.int64], refused: list[tuple[int, Refused]]) -> NDArray[np.int64]:
    return np.setdiff1d(places, [place for place, _ in refused]) if refused else places


def _one_each(refused: list[tuple[int, Refused]], rows: Any, wanted: Any) -> list[Refused]:
    """The first reason of each refused row, by row."""
    found: dict[int, Refused] = {}
    for place, why in refused:
        if wanted[place] and place not in found:
            found[place] = why._replace(row=int(rows[place]))
    return [found[place] for place in sorted(found)]


def _rows_not_stored(name: str, feature: Feature, column: Column, first: int) -> list[tuple[int, str]]:
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
