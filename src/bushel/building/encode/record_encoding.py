"""Blocks of samples to records: encode labels, transform, check, encode. Rows that cannot be written are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import Labels
from bushel.data.columns import Column, take
from bushel.data.encoding import Constraint, FramedRecords, Narrowings, RecordEncoder
from bushel.data.samples import Sample, check_sample, sample_at, to_columns
from bushel.data.schema import Feature, Schema
from bushel.errors import MissingName, SchemaMismatch, reason_of
from bushel.sources.protocol import Block, Refused
from bushel.transforms import Transform
from bushel.transforms.chain import Chain
from bushel.transforms.protocol import is_in_core

__all__ = ["BlockEncoder", "Encoded"]


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
    def records(self) -> RecordEncoder:
        """How columns become records."""
        return RecordEncoder(self.schema, self.labels, self.constraints)

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
            changed = None if varies or known else self._transform_columns(columns, places, counted)
            if changed is None:
                variation = self.variation if varies else None
                changed, failed = self._transform_samples(columns, places, hashes, known, variation, counted)
                refused += failed
                places = _without(places, failed)
            columns, left_out = changed, set()
        else:
            left_out |= {place for place, _ in refused}
        records, broken = self.records.encode(columns, rows[places], left_out, narrowings)
        refused += [(int(places[at]), _refusal("schema", why)) for at, why in broken]
        return Encoded(records, _one_each(refused, rows, wanted), counted, narrowings)

    def coded(self, block: Block) -> tuple[dict[str, Column], list[tuple[int, Refused]]]:
        """The columns of a block with labels as codes, and the places whose label cannot be used."""
        features = self.source_schema.features
        for name in block.columns:
            if name not in features:
                raise MissingName("feature", name, features, where="source")
        columns, refused = self.records.coded(block.columns)
        return columns, [(place, _refusal("schema", why)) for place, why in refused]

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


def _taken(columns: dict[str, Column], places: NDArray[np.int64]) -> dict[str, Column]:
    """Only these places of the columns, which are in order."""
    rows = len(next(iter(columns.values()))) if columns else 0
    return columns if len(places) == rows else {name: take(column, places) for name, column in columns.items()}


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
