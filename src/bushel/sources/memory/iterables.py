"""Any Python iterable, generator or function that gives samples."""

from __future__ import annotations

import atexit
import inspect
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column
from bushel.data.samples import to_columns
from bushel.data.schema import Feature, Schema
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.sources.memory.census import Census, misfit
from bushel.sources.memory.values import number_keys
from bushel.sources.protocol import Block, Listing, Refused, fingerprint_of

__all__ = ["IterableSource", "iterable"]

Samples: TypeAlias = Iterable[Mapping[str, Any]]

_BLOCK_ROWS = 256


def iterable(samples: Samples | Callable[[], Samples], *, key: str | None = None) -> IterableSource:
    """Take samples from a list, a generator, or a function that returns either.

    Samples are dicts of numbers, text, bytes, and lists or arrays of them. They are gone through twice, for types and
    keys first: a function is called twice; what can be gone through only once is kept in a temporary file.
    `key` names the value that is a sample's key; without it they are numbered.

    >>> source = iterable(lambda: ({"x": i, "label": i % 2} for i in range(10)))
    """
    if not callable(samples) and not isinstance(samples, Iterable):
        raise ValueError(f"samples must be an iterable or a function, got {type(samples).__name__}")
    return IterableSource(samples, key)


class IterableSource:
    """Samples from Python; reads in sequence, in one partition."""

    reads: Literal["random", "sequence"] = "sequence"

    def __init__(self, samples: Samples | Callable[[], Samples], key: str | None) -> None:
        self.samples = samples
        self.key = key
        self.name = _name_of(samples)
        self.kept: Path | None = None  # the samples of what can be gone through only once

    def _replay(self) -> Iterator[Mapping[str, Any]]:
        if self.kept is not None:
            yield from _load(self.kept)
        else:
            yield from self.samples() if callable(self.samples) else self.samples

    def _first_time(self) -> Iterator[Mapping[str, Any]]:
        if callable(self.samples) or iter(self.samples) is not self.samples:
            yield from self._replay()
            return
        with tempfile.NamedTemporaryFile(prefix="bushel-", suffix=".samples", delete=False) as file:
            self.kept = Path(file.name)
            atexit.register(self.kept.unlink, missing_ok=True)
            for sample in self.samples:
                pickle.dump(sample, file, pickle.HIGHEST_PROTOCOL)
                yield sample

    @cached_property
    def survey(self) -> tuple[dict[str, Feature], list[Any]]:
        """Features, and the keys of all samples if they have some of their own."""
        census = Census()
        keys: list[Any] = []
        for row, sample in enumerate(self._first_time()):
            if not isinstance(sample, Mapping):
                raise SchemaMismatch(f"a sample must be a dict, got {type(sample).__name__}", at=f"sample {row}")
            for name in sample:
                if not isinstance(name, str):
                    raise SchemaMismatch(f"the name of a feature must be a str, got {name!r}", at=f"sample {row}")
            census.add(sample)
            keys.append(sample.get(self.key) if self.key is not None else None)
        if self.key is not None and self.key not in census.found:
            raise MissingName("feature", self.key, census.found, where="samples")
        if self.key is None:
            keys = [None] * census.samples
        return census.features(), keys

    @property
    def split(self) -> str | None:
        """`split`, if samples have that."""
        return "split" if "split" in self.survey[0] else None

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """What most samples hold."""
        return Schema(features=dict(self.survey[0]))

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the columns asked for; values that do not fit are missing."""
        assert partition == 0
        features, keys = self.survey
        wanted = {name: features[name] for name in columns if name in features}
        found: dict[str, Column] = {}
        if wanted:
            fitting = [_fitting(sample, wanted) for sample in self._replay()]
            optional = {name: _optional(feature) for name, feature in wanted.items()}
            found = to_columns(fitting, optional)
        numbers = number_keys(0, len(keys))
        if self.key is None:
            return Listing(numbers, found)
        told = [numbers[row] if key is None else _as_key(key) for row, key in enumerate(keys)]
        return Listing(BytesColumn.of(told), found)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All samples, in order."""
        assert partition == 0
        if rows is not None:
            raise ValueError("rows must be None: an iterable is read in sequence")
        features, keys = self.survey
        block: list[Mapping[str, Any]] = []
        count = 0
        for count, sample in enumerate(self._replay(), 1):
            block.append(sample)
            if len(block) == _BLOCK_ROWS:
                yield self._block(block, count - len(block), features)
                block = []
        if block:
            yield self._block(block, count - len(block), features)
        if count != len(keys):
            raise BushelError(f"{self.name}: gave {len(keys)} samples the first time and {count} the second")

    def _block(self, samples: Sequence[Mapping[str, Any]], first: int, features: dict[str, Feature]) -> Block:
        kept: list[int] = []
        refused: list[Refused] = []
        for row, sample in enumerate(samples):
            why = misfit(sample, features)
            if not why and self.key is not None and sample.get(self.key) is None:
                why = f"{self.key}: the key is missing"
            if why:
                refused.append(Refused(first + row, "schema", why))
            else:
                kept.append(row)
        columns = to_columns([samples[row] for row in kept], features)
        return Block(np.array(kept, np.int64) + first, columns, refused)

    def locate(self, partition: int, row: int) -> str:
        """The number of the sample."""
        assert partition == 0
        return f"{self.name}: sample {row}"

    def fingerprint(self) -> str:
        """The number of samples, their types and keys: what is inside them is not looked at."""
        features, keys = self.survey
        told = [feature.describe() for feature in features.values()]
        return fingerprint_of([], {"kind": "iterable"}, *features, *told, repr(keys) if self.key else str(len(keys)))

    def describe(self) -> dict[str, Any]:
        """Only that it was an iterable: a recipe cannot make it again."""
        return {"kind": "iterable", "name": self.name}

    def __getstate__(self) -> dict[str, Any]:
        survey = self.survey  # which keeps the samples of what can be gone through only once
        state = self.__dict__ | {"survey": survey}
        return state | {"samples": ()} if self.kept is not None else state


def _name_of(samples: Any) -> str:
    if inspect.isroutine(samples) or inspect.isgenerator(samples):
        return str(samples.__qualname__)
    return type(samples).__name__


def _load(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return


def _as_key(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _fitting(sample: Mapping[str, Any], features: dict[str, Feature]) -> dict[str, Any]:
    """Those values of a sample that are of their features."""
    return {
        name: sample[name]
        for name, feature in features.items()
        if sample.get(name) is not None and not misfit({name: sample[name]}, {name: feature})
    }


def _optional(feature: Feature) -> Feature:
    return Feature(dtype=feature.dtype, shape=feature.shape, required=False)
