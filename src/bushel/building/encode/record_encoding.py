"""Blocks of samples to records: coded, transformed, checked, encoded. What cannot be written is refused by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.encode.column_encoding import Narrowings, Stored, store
from bushel.building.encode.constraints import broken_rows, cut_column
from bushel.building.encode.samples import check_sample, features_of, to_columns, to_sample
from bushel.building.recipe import Constraint
from bushel.data.columns import Column, Ragged, SparseColumn, part_sparse, take
from bushel.data.labels import UNKNOWN, Labels
from bushel.data.schema import Feature, Schema, record_kind, wire_features
from bushel.errors import BushelError, MissingName, SchemaMismatch, reason_of
from bushel.records.scan import Sample
from bushel.sources.protocol import Block, Refused
from bushel.transforms import ColumnTransform, Draw, Transform
from bushel.transforms.counting import counting
from bushel.transforms.repeated import vary

__all__ = ["BlockEncoder", "Piece"]

FRAMING = 16


@dataclass(frozen=True)
class Piece:
    """Framed records, one behind the other."""

    rows: NDArray[np.int64]  # in their partition
    data: Any
    lengths: NDArray[np.int64]  # in bytes, framing included
    labels: NDArray[Any] | None


@dataclass
class BlockEncoder:
    """Turns blocks into records as one recipe says."""

    source_schema: Schema
    schema: Schema
    labels: Labels | None = None
    constraints: dict[str, Constraint] = field(default_factory=dict)
    transforms: Sequence[Transform] = ()
    seed: int = 0
    augment: Sequence[Transform] = ()  # of what comes again, behind the transforms
    narrowings: Narrowings = field(default_factory=Narrowings)
    counted: Counter[str] = field(default_factory=Counter)  # what transforms cut or did not know
    probed: dict[int, Sample] = field(default_factory=dict)  # what was transformed already, by the hash of its key

    def encode(
        self, block: Block, hashes: NDArray[np.uint64], wanted: NDArray[np.bool_]
    ) -> tuple[list[Piece], list[Refused]]:
        """Records of the wanted rows, and those of them that were refused; `hashes` are of the rows' keys."""
        rows = np.asarray(block.rows, np.int64)
        columns, refused = self.coded(block)
        refused = [(place, why) for place, why in refused if wanted[place]]
        places = np.arange(len(rows))
        left_out = set(np.flatnonzero(~wanted).tolist())
        varies = block.is_repeat and bool(self.augment)
        if self.transforms or varies:
            places = _without(np.flatnonzero(wanted), refused)
            columns, failed = self._transformed(columns, places, hashes, varies=varies)
            refused += failed
            places = _without(places, failed)
            left_out = set()
        else:
            left_out |= {place for place, _ in refused}
        pieces, broken = self._encode_rows(columns, rows[places], left_out)
        refused += [(int(places[at]), why) for at, why in broken]
        return pieces, _one_each(refused, rows, wanted)

    def _encode_rows(
        self, columns: dict[str, Column], rows: NDArray[np.int64], left_out: set[int]
    ) -> tuple[list[Piece], list[tuple[int, Refused]]]:
        columns = _on_wire(columns)
        stored, refused = self._stored(columns, len(rows))
        pieces, too_large = self._encode_ranges(columns, stored, rows, left_out | {place for place, _ in refused})
        return pieces, [*refused, *too_large]

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
            what = f"{name} is empty" if not text else f"{name} {text!r} is no class of the dataset"
            bad.append((place, what))
        return bad

    def _transformed(self, columns: dict[str, Column], places: Any, hashes: Any, *, varies: bool) -> Any:
        if not varies and (changed := self._transformed_columns(columns, places)) is not None:
            return changed, []
        samples, refused = [], []
        for place in places.tolist():
            try:
                key_hash = int(hashes[place])
                with counting() as counted:
                    sample = self.transform(to_sample(columns, place, self.coded_features()), key_hash)
                    if varies:
                        sample = vary(sample, self.augment, Draw(self.seed, 0, key_hash, len(self.transforms)))
                samples.append(check_sample(sample, self.schema.features))
                self.counted.update(counted)
            except SchemaMismatch as error:
                refused.append((place, _refusal("schema", error.message)))
            except Exception as error:  # whatever a transform raises, it is this sample's fault until it is all of them
                refused.append((place, _refusal("transform", reason_of(error))))
        return to_columns(samples, self.schema.features), refused

    def _transformed_columns(self, columns: dict[str, Column], places: Any) -> dict[str, Column] | None:
        """All rows at once, where every transform can and no row is to blame for anything."""
        if not all(isinstance(transform, ColumnTransform) for transform in self.transforms):
            return None
        rows = len(next(iter(columns.values()))) if columns else 0
        if len(places) < rows:
            columns = {name: take(column, places) for name, column in columns.items()}
        try:
            with counting() as counted:
                for transform in self.transforms:
                    columns = transform.apply_columns(columns)  # type: ignore[attr-defined]
        except Exception:  # sample by sample it is told which
            return None
        if not all(name in self.schema for name in columns):
            return None
        self.counted.update(counted)
        return columns

    def coded_features(self) -> dict[str, Feature]:
        """The features of the source, with the label as it is coded."""
        features = dict(self.source_schema.features)
        if self.labels is not None and self.labels.feature in features:
            features[self.labels.feature] = self.labels.stored(features[self.labels.feature])
        return features

    def transform(self, sample: Sample, key_hash: int) -> Sample:
        """The sample as it is written."""
        if (known := self.probed.pop(key_hash, None)) is not None:
            return known
        for step, transform in enumerate(self.transforms):
            sample = transform.apply(sample, Draw(self.seed, 0, key_hash, step))
        return sample

    def _stored(self, columns: dict[str, Column], rows: int) -> tuple[dict[str, Stored], list[tuple[int, Refused]]]:
        """The columns that can be stored whole, and the rows that do not hold what schema and constraints say."""
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
                stored[name] = store(name, feature, column, self.narrowings)
            except BushelError:
                broken += _rows_not_stored(name, feature, column, 0)
            refused += [(place, _refusal("schema", why)) for place, why in broken]
        return stored, refused

    def _encode_ranges(
        self, columns: dict[str, Column], stored: dict[str, Stored], rows: NDArray[np.int64], left_out: set[int]
    ) -> tuple[list[Piece], list[tuple[int, Refused]]]:
        """Records of all rows but those left out: at once, or, where a column cannot be stored whole, in stretches."""
        pieces: list[Piece] = []
        refused: list[tuple[int, Refused]] = []
        features = wire_features(self.schema.features)
        if all(name in stored for name in columns if name in features):
            return self._encode_kept(columns, stored, rows, left_out)
        begin = 0
        stops = [*sorted(left_out), len(rows)]
        while stops:
            end = stops.pop(0)
            if end > begin:
                cut = [
                    self._cut(name, features[name], columns[name], stored, (begin, end))
                    for name in columns
                    if name in features
                ]
                encoded: Any = _native.encode(cut, end - begin, 1)
                if isinstance(encoded, int):
                    refused.append((begin + encoded, _refusal("schema", "the record is larger than 2 GiB")))
                    stops[:0] = [begin + encoded, end]
                    continue
                labels = self._label_values(columns, begin, end)
                pieces.append(Piece(rows[begin:end], encoded[0][0], encoded[1].astype(np.int64) + FRAMING, labels))
            begin = end + 1
        return pieces, refused

    def _encode_kept(
        self, columns: dict[str, Column], stored: dict[str, Stored], rows: NDArray[np.int64], left_out: set[int]
    ) -> tuple[list[Piece], list[tuple[int, Refused]]]:
        kept = np.ones(len(rows), bool)
        kept[list(left_out)] = False
        refused: list[tuple[int, Refused]] = []
        while kept.any():
            order = None if kept.all() else np.flatnonzero(kept)
            encoded: Any = _native.encode(list(stored.values()), len(rows), 1, order)
            if isinstance(encoded, int):
                place = encoded if order is None else int(order[encoded])
                refused.append((place, _refusal("schema", "the record is larger than 2 GiB")))
                kept[place] = False
                continue
            lengths = encoded[1].astype(np.int64) + FRAMING
            if order is None:
                return [Piece(rows, encoded[0][0], lengths, self._label_values(columns, 0, len(rows)))], refused
            label = {
                name: take(columns[name], order) for name in columns if self.labels and name == self.labels.feature
            }
            return [Piece(rows[order], encoded[0][0], lengths, self._label_values(label, 0, len(order)))], refused
        return [], refused

    def _cut(
        self, name: str, feature: Feature, column: Column, stored: dict[str, Stored], rows: tuple[int, int]
    ) -> Stored:
        if name in stored:
            return stored[name].cut(*rows)
        return store(name, feature, cut_column(column, *rows), self.narrowings)

    def _label_values(self, columns: dict[str, Column], begin: int, end: int) -> NDArray[Any] | None:
        if self.labels is None or self.labels.feature not in columns or self.labels.task == "multi_label":
            return None
        column = cut_column(columns[self.labels.feature], begin, end)
        values = column.values if isinstance(column, Ragged) else column
        if not isinstance(values, np.ndarray) or values.size != end - begin:
            return None
        return values.reshape(-1).astype(np.float64 if self.labels.task == "regression" else np.int64)


def _on_wire(columns: Mapping[str, Any]) -> dict[str, Column]:
    """Sparse columns as the two lists that records hold."""
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
        *_rows_not_stored(name, feature, cut_column(column, 0, half), first),
        *_rows_not_stored(name, feature, cut_column(column, half, len(column)), first + half),
    ]


def stored_schema(source_schema: Schema, labels: Labels | None, transformed: list[Sample] | None) -> Schema:
    """The schema of records: labels as codes, and what transforms made of the samples probed."""
    features = dict(source_schema.features)
    if labels is not None and labels.feature in features:
        features[labels.feature] = labels.stored(features[labels.feature])
    if transformed is not None:
        features = features_of(transformed, features)
    features = dict(sorted(features.items(), key=lambda pair: pair[0].encode()))
    return msgspec.structs.replace(source_schema, features=features, record=record_kind(features), statistics={})
