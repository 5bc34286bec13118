"""Values and samples in memory as columns, and the source of samples that Python code makes."""

from __future__ import annotations

import atexit
import inspect
import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import (
    BytesColumn,
    Column,
    Ragged,
    SparseColumn,
    byte_size,
    concatenate,
    need_arrow,
    with_missing,
)
from bushel.data.dates import DATE_TYPES, is_date_type
from bushel.data.roles import LABEL_NAMES
from bushel.data.samples import are_images, as_column, feature_of, fits, to_columns
from bushel.data.schema import RAW_DTYPES, Feature, Schema
from bushel.data.splits import split_of_name
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.sources.protocol import Block, Listing, Refused, Source, fingerprint_of
from bushel.sources.tables import arrow
from bushel.sources.tables.cells import array_of_mixed
from bushel.sources.tables.date_columns import to_dates
from bushel.sources.tables.readings import ColumnWitness, Reading, check_date_type, is_text, mixed_note

__all__ = [
    "Census",
    "IterableSource",
    "Unread",
    "are_splits",
    "column_or_mixed",
    "from_pairs",
    "is_sparse",
    "iterable",
    "join_splits",
    "misfit",
    "nullable_column",
    "number_keys",
    "read_columns",
    "rows_that_fit",
    "typed",
]


_INT64 = range(-(2**63), 2**63)
_DTYPES: dict[type, str] = {bool: "int64", int: "int64", float: "float32", str: "str"}


@dataclass
class Census:
    """How many values of each type and shape every feature has, over all samples."""

    samples: int = 0
    found: dict[str, Counter[tuple[str, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(Counter))
    not_images: set[str] = field(default_factory=set)  # features with bytes that are not an encoded image

    def add(self, sample: Mapping[str, Any]) -> None:
        """Count one sample; values that cannot be stored are left to `misfit`."""
        self.samples += 1
        for name, value in sample.items():
            self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        if value is None:
            return
        try:
            kind = feature_of(value, name=name)
        except SchemaMismatch:
            return
        self.found[name][kind.dtype, kind.shape] += 1  # type: ignore[index]
        if kind.dtype == "bytes" and name not in self.not_images and not are_images(_flat(value)):
            self.not_images.add(name)

    def add_columns(self, columns: Mapping[str, Sequence[Any]], rows: int) -> None:
        """Count many samples at once, given as columns; numbers and texts are not looked at one by one."""
        self.samples += rows
        for name, values in columns.items():
            kinds = Counter(map(type, values))
            del kinds[type(None)]
            if kinds.keys() <= _DTYPES.keys():
                for kind, count in kinds.items():
                    self.found[name][_DTYPES[kind], ()] += count
            else:
                for value in values:
                    self._add(name, value)

    def features(self) -> dict[str, Feature]:
        """The features that fit most samples."""
        return {name: self._feature(name, kinds) for name, kinds in self.found.items()}

    def _feature(self, name: str, kinds: Counter[tuple[str, tuple[int, ...]]]) -> Feature:
        # An empty list fits every type, so it says nothing about the others.
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
    """Why a sample does not have these features; empty if it does."""
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


Samples: TypeAlias = Iterable[Mapping[str, Any]]

_BLOCK_ROWS = 256


def iterable(samples: Samples | Callable[[], Samples], *, key: str | None = None) -> IterableSource:
    """Take samples from a list, a generator, or a function that returns either.

    Samples are dicts of numbers, text, bytes, and lists or arrays of them. They are read twice, first for types and
    keys: a function is called twice; samples that come only once are kept in a temporary file.
    `key` names the value that identifies a sample; without it, samples are numbered.

    >>> source = iterable(lambda: ({"x": i, "label": i % 2} for i in range(10)))
    """
    if not callable(samples) and not isinstance(samples, Iterable):
        raise ValueError(f"samples must be an iterable or a function, got {type(samples).__name__}")
    return IterableSource(samples, key)


class IterableSource(Source):
    """Samples from Python; reads in sequence, in one partition."""

    reads: Literal["random", "sequence"] = "sequence"

    def __init__(self, samples: Samples | Callable[[], Samples], key: str | None) -> None:
        self.samples = samples
        self.key = key
        self.name = _name_of(samples)
        self.kept: Path | None = None  # samples that come only once

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
        """The features, and the keys of all samples if `key` names them."""
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
        """`split`, if samples have such a feature."""
        return "split" if "split" in self.survey[0] else None

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """The features that fit most samples."""
        return Schema(features=dict(self.survey[0]))

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns; values that do not fit are missing."""
        assert partition == 0
        features, keys = self.survey
        wanted = {name: features[name] for name in columns if name in features}
        found: dict[str, Column] = {}
        if wanted:
            fit = [fitting(sample, wanted) for sample in self._replay()]
            found = to_columns(fit, {name: optional(feature) for name, feature in wanted.items()})
        numbers = number_keys(0, len(keys))
        if self.key is None:
            return Listing(numbers, found)
        stated = [numbers[row] if key is None else as_key(key) for row, key in enumerate(keys)]
        return Listing(BytesColumn.of(stated), found)

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
        """The number of samples, their types and keys, but not their values."""
        features, keys = self.survey
        stated = [feature.describe() for feature in features.values()]
        return fingerprint_of([], {"kind": "iterable"}, *features, *stated, repr(keys) if self.key else str(len(keys)))

    def describe(self) -> dict[str, Any]:
        """Only that it was an iterable: a recipe cannot restore it."""
        return {"kind": "iterable", "name": self.name}

    def __getstate__(self) -> dict[str, Any]:
        survey = self.survey  # keeps samples that come only once
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


def as_key(value: Any) -> bytes:
    """A value as a key."""
    return value if isinstance(value, bytes) else str(value).encode()


def fitting(sample: Mapping[str, Any], features: dict[str, Feature]) -> dict[str, Any]:
    """The values of a sample that fit their features."""
    return {
        name: sample[name]
        for name, feature in features.items()
        if sample.get(name) is not None and not misfit({name: sample[name]}, {name: feature})
    }


def optional(feature: Feature) -> Feature:
    """The feature, as one that a row may lack."""
    return Feature(dtype=feature.dtype, shape=feature.shape, required=False)


def nullable_column(values: Any, *, name: str) -> Any:
    """Any values, one per row, as a column; None is missing, and so is NaN among objects."""
    if isinstance(values, BytesColumn | Ragged | SparseColumn):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        if values.ndim == 0:
            raise SchemaMismatch("a column must have one value per row, got a single value", at=name)
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        return as_column(values, name=name)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OMm":
        raise SchemaMismatch(f"values of dtype {values.dtype} cannot be stored", at=name, help=[_CONVERT])
    if is_sparse(values):
        return _from_sparse(values, name)
    if not hasattr(values, "__len__"):
        raise SchemaMismatch(f"a column must have one value per row, got {type(values).__name__}", at=name)
    if not isinstance(values, np.ndarray) and (column := _from_numbers(values)) is not None:
        return column
    return _through_arrow(values, name)


_CONVERT = "Convert it to numbers, bytes or str."


def is_sparse(values: Any) -> bool:
    """Whether it is one of SciPy's sparse matrices or arrays."""
    return hasattr(values, "tocsr") and hasattr(values, "nnz")


def _from_sparse(values: Any, name: str) -> SparseColumn:
    """The non-zero values of a matrix by row; duplicates are summed, as in SciPy."""
    if len(values.shape) != 2:
        raise SchemaMismatch("a sparse array must have rows of one size", at=name)
    matrix = values.tocsr()
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    places, splits = (np.asarray(part, np.int64) for part in (matrix.indices, matrix.indptr))
    return SparseColumn(places, matrix.data, splits, int(matrix.shape[1]))


def _from_numbers(values: Any) -> NDArray[Any] | None:
    """Lists of numbers, or of arrays of one shape, as NumPy converts them."""
    if hasattr(values, "dtype") or not isinstance(values, Sequence) or not len(values):
        return None
    if not isinstance(values[0], int | float | np.number | np.ndarray | list | tuple):
        return None
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" and array.ndim else None


def _through_arrow(values: Any, name: str) -> Column:
    try:
        import pyarrow as pa
    except ImportError:
        return _without_arrow(list(values), name)
    bad: arrow.BadRows = {}
    try:
        # Inside a list, Arrow takes lists of lists, but no arrays of several dimensions.
        if isinstance(values, Sequence) and any(isinstance(value, np.ndarray) and value.ndim > 1 for value in values):
            return as_column(values, name=name)
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        what = str(error).splitlines()[0]
        raise SchemaMismatch(f"its values are not of one type: {what}", at=name, help=[_CONVERT]) from None
    arrow.feature_of(array.type, name=name, required=False)
    column = arrow.to_column(array, bad)
    for row, reason in bad.items():
        raise SchemaMismatch(reason, at=f"{name}[{row}]")
    return column


class Unread(NamedTuple):
    """A column as Arrow has it, of which is still to be said what it is: dates, or numbers and text, all as text."""

    array: Any
    others: int = 0  # values that are not text, in a column of text


def column_or_mixed(values: Any, *, name: str) -> Any:
    """Any values as a column; dates, and single values of several kinds, as `Unread`."""
    try:
        if find_spec("pyarrow") and getattr(getattr(values, "dtype", None), "kind", "") == "M":
            return Unread(_dates_of(values))
        return nullable_column(values, name=name)
    except SchemaMismatch:
        mixed = array_of_mixed(values) if find_spec("pyarrow") and not is_sparse(values) else None
        if mixed is None:
            raise
        return Unread(*mixed)


def _dates_of(values: Any) -> Any:
    import pyarrow as pa

    array = pa.array(values, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def read_columns(
    given: Mapping[str, Any], marks: tuple[str, ...] | None, types: Mapping[str, str]
) -> tuple[dict[str, Any], set[str], dict[str, int]]:
    """Columns in memory as what they are read as, the names of dates, and notes for people."""
    if find_spec("pyarrow") is None and marks is None:
        return dict(given), set(), {}
    need_arrow("missing_values")
    found: dict[str, Any] = dict(given)
    dates: set[str] = set()
    notes: dict[str, int] = {}
    for name, column in given.items():
        array = column.array if isinstance(column, Unread) else _marked_array(column, is_asked=marks is not None)
        if array is None:
            continue
        read, reading = _read(array, marks, types.get(name), name)
        if isinstance(column, Unread) or read is not array:
            found[name] = arrow.to_column(read, {})
        if arrow.is_date(read.type):
            dates.add(name)
        notes |= reading.notes(name)
        if isinstance(column, Unread) and column.others and reading.kind == "as it is":
            notes[mixed_note(name, column.others)] = column.others
    return found, dates, notes


def _read(array: Any, marks: tuple[str, ...] | None, asked: str | None, name: str) -> tuple[Any, Reading]:
    """An array as what all of its values are, or as what was asked for."""
    witness = ColumnWitness(marks, asked)
    if marks is not None or is_text(array.type):
        witness.add(array)
    reading = witness.reading() if asked not in ("str", "bytes") or marks is not None else Reading()
    read = reading.apply(array) if reading != Reading() else array
    if asked is not None and is_date_type(asked):
        check_date_type(name, asked, array.type, reading)
        bad: arrow.BadRows = {}
        read = to_dates(read, asked if ":" in asked else f"date:{reading.notation}", bad)
        for row, reason in bad.items():
            raise SchemaMismatch(reason, at=f"{name}[{row}]")
    elif asked == "str" and not is_text(read.type):
        read = arrow.cast_array(read, "str", {})
    return read, reading


def _marked_array(column: Any, *, is_asked: bool) -> Any | None:
    """A column that may hold marks as Arrow has it: text, or numbers if marks were asked for."""
    import pyarrow as pa

    values, present = (column.values, column.present) if isinstance(column, Ragged) else (column, None)
    if isinstance(column, Ragged) and (present is None or len(values) != present.sum()):
        return None  # lists
    if isinstance(values, BytesColumn):
        try:
            array = pa.array([value.decode() for value in values], pa.string())
        except UnicodeDecodeError:
            return None
    elif isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf" and is_asked:
        array = pa.array(values)
    else:
        return None
    if present is None:
        return array
    places = np.cumsum(present) - 1
    return array.take(pa.array(places, mask=~present))


def _without_arrow(values: list[Any], name: str) -> Column:
    """The same for texts, bytes, numbers and lists of them, slower."""
    present = np.array([value is not None and not (isinstance(value, float) and isnan(value)) for value in values])
    if present.all():
        return as_column(values, name=name)
    there = [value for value, is_there in zip(values, present, strict=True) if is_there]
    if not there:
        raise SchemaMismatch("all its values are missing", at=name)
    return with_missing(as_column(there, name=name), present)


def typed(features: Mapping[str, Feature], types: Mapping[str, str]) -> dict[str, Feature]:
    """Features with the requested types; requesting a type permits a cast."""
    out = dict(features)
    for name, dtype in types.items():
        if dtype not in (*RAW_DTYPES, *DATE_TYPES, "str", "bytes"):
            raise ValueError(f"types[{name!r}] must be one of str, bytes, date, {', '.join(RAW_DTYPES)}; got {dtype!r}")
        old = features[name]
        if is_date_type(dtype):
            out[name] = Feature(dtype="int64", shape=old.shape, required=old.required, meaning="date")
            continue
        if old.encoding == "sparse":
            if dtype != old.dtype:
                raise SchemaMismatch(f"sparse {old.dtype} cannot be taken as {dtype}", at=name, help=[_DENSE])
            continue
        was_text, is_text = old.dtype in ("str", "bytes"), dtype in ("str", "bytes")
        cast = not is_text and not was_text
        out[name] = Feature(dtype=dtype, shape=old.shape, required=old.required, cast=cast)
    return out


_DENSE = "Convert the matrix (x.astype(...)), or make it dense: x.toarray()"


def number_keys(first: int, count: int, prefix: str = "") -> BytesColumn:
    """Row numbers as keys: their decimal digits, after a prefix."""
    return BytesColumn(*cast("tuple[Any, Any]", _native.number_keys(first, count, prefix.encode())))


def rows_that_fit(columns: Iterable[Column], rows: int, *, max_bytes: int, most: int = 65536) -> int:
    """How many rows of columns make a block of about `max_bytes`."""
    size = sum(byte_size(column) for column in columns)
    return int(max(1, min(most, rows * max_bytes // max(size, 1))))


def from_pairs(data: Any) -> dict[str, Any] | None:
    """`((x, y), (x, y))`, or three such pairs, by name: what the `load_data` functions of Keras return."""
    if not isinstance(data, tuple) or len(data) not in (2, 3) or not all(_is_pair(pair) for pair in data):
        return None
    names = ("train", "test") if len(data) == 2 else ("train", "val", "test")
    return {f"{part}_{name}": pair[at] for name, pair in zip(names, data, strict=True) for at, part in enumerate("xy")}


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(part, "shape") for part in value)


def are_splits(names: Iterable[str]) -> bool:
    """Whether all names begin or end with a split, and there are several splits."""
    stated = [_told(name) for name in names]
    return all(stated) and len({one[1] for one in stated if one}) > 1


def join_splits(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Join columns named after splits into columns of all rows, and a column of splits."""
    found: dict[str, dict[str, Column]] = {}
    for name, column in columns.items():
        part, split = _told(name) or (name, "")
        found.setdefault(split, {})[part] = column
    parts = list(next(iter(found.values())))
    rows: dict[str, int] = {}
    for split, own in found.items():
        if set(own) != set(parts):
            raise SchemaMismatch(f"splits must have the same arrays, got {', '.join(columns)}", at=split)
        counts = {len(column) for column in own.values()}
        if len(counts) > 1:
            said = ", ".join(f"{name}_{split} {len(column)}" for name, column in own.items())
            raise SchemaMismatch(f"arrays of one split must have the same number of rows, got {said}", at=split)
        rows[split] = counts.pop()
    joined = {
        "label" if part in LABEL_NAMES else part: _scalars(concatenate([own[part] for own in found.values()]))
        for part in parts
    }
    numbers = np.repeat(np.arange(len(rows)), list(rows.values()))
    return joined | {"split": BytesColumn.of(list(rows)).take(numbers)}


def _told(name: str) -> tuple[str, str] | None:
    """The array and the split in a name: `x_train`, `train_x`, or `train/x` in a group of an HDF5 file."""
    group, _, inner = name.partition("/")
    if inner and (split := split_of_name(group)):
        return inner, split
    before, _, after = name.rpartition("_")
    if before and (split := split_of_name(after)):
        return before, split
    before, _, after = name.partition("_")
    split = split_of_name(before)
    return (after, split) if split and after else None


def _scalars(column: Column) -> Column:
    """One value per row if rows are lists of one value, like the labels of CIFAR."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        return np.ascontiguousarray(column[:, 0])
    return column
