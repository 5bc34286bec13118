"""From a sample to what the model takes: the same steps that `batches` runs, from a value that can be stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract.stored import StoredArray, load_bytes, store_bytes
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, SparseRow, aligned, as_ragged
from bushel.data.samples import Sample
from bushel.data.schema import BYTES_KIND, Feature, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.reading.layout import Bucket, Dense, Pack, Pad, Sparse
from bushel.transforms import BatchTransform, Fittable, Transform
from bushel.transforms.by_name import describe_transforms, make_transforms
from bushel.transforms.chain import Chain
from bushel.transforms.fitted import keep, restore

if TYPE_CHECKING:
    from bushel.contract.document import Contract

__all__ = ["Preparation", "arrange", "as_array", "columns_of", "is_numeric", "prepare", "prepare_samples"]

Step: TypeAlias = Pad | Sparse | Dense
_LAYOUTS: dict[str, type[Pad] | type[Sparse] | type[Dense]] = {"pad": Pad, "sparse": Sparse, "dense": Dense}


class Preparation(msgspec.Struct, frozen=True):
    """How a sample becomes what the model takes: the features read, what is done to each, and how rows are laid out.

    It is that of evaluation: what is changed at random in training has no place in it.
    """

    features: tuple[str, ...]
    transforms: tuple[Transform, ...] = ()
    layout: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        for name in ("features", "transforms", "layout"):
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        for transform in self.transforms:
            if isinstance(transform, BatchTransform):
                raise ValueError(f"transforms must not mix the rows of a batch, got {transform!r}")
        for step in self.layout:
            if isinstance(step, Bucket | Pack):
                raise ValueError(f"layout must leave a row a sample, so Pad, Sparse and Dense alone; got {step!r}")

    def describe(self) -> dict[str, Any]:
        """As plain values, from which `made` makes the same again."""
        layout = [{"layout": type(step).__name__.lower(), **msgspec.structs.asdict(step)} for step in self.layout]
        learnt = keep(self.transforms)
        files = {name: msgspec.to_builtins(store_bytes(data)) for name, data in learnt.files.items()}
        described = describe_transforms([_unfitted(transform) for transform in self.transforms])
        more = {"statistics": learnt.statistics, "files": files}
        return {"features": list(self.features), "transforms": described, "layout": layout} | {
            name: value for name, value in more.items() if value
        }

    @classmethod
    def made(cls, described: Mapping[str, Any]) -> Preparation:
        """The preparation that was described; what cannot be understood is a ValueError."""
        layout = []
        for table in described.get("layout", ()):
            fields = dict(table)
            kind = _LAYOUTS.get(str(fields.pop("layout", "")))
            if kind is None:
                raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}; got {table!r}")
            layout.append(msgspec.convert(fields, kind))
        files = msgspec.convert(described.get("files", {}), dict[str, StoredArray])
        made = make_transforms(described.get("transforms", ()))
        transforms = restore(made, described.get("statistics", {}), lambda name: load_bytes(files[name]))
        return cls(tuple(described["features"]), tuple(transforms), tuple(layout))


def _unfitted(transform: Transform) -> Transform:
    """The transform without what it learnt, which is kept apart from it."""
    if not isinstance(transform, Fittable):
        return transform
    if isinstance(transform, msgspec.Struct):
        return msgspec.structs.replace(transform, fitted=None)
    changed: Any = dataclasses.replace(transform, fitted=None)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]


def prepare(contract: Contract, samples: Sequence[Sample]) -> dict[str, Any]:
    """Samples as the model takes them: the columns of a batch, one row a sample, without the label.

    >>> contract.prepare(contract.read("runs/cats"), [{"image": open("cat.jpg", "rb").read()}])["image"].shape
    (1, 160, 160, 3)
    """
    return prepare_samples(contract.preparation, contract.schema, samples)


def arrange(contract: Contract, columns: Mapping[str, Any]) -> Any:
    """The columns of a batch as the model is called with them: the one input, or a dict of all."""
    inputs = {name: as_array(name, columns[name]) for name in contract.inputs}
    return next(iter(inputs.values())) if len(inputs) == 1 else inputs


def prepare_samples(preparation: Preparation, schema: Schema, samples: Sequence[Sample]) -> dict[str, Any]:
    """The columns that these steps make of samples."""
    columns = columns_of(samples, schema, preparation.features)
    return finish(preparation, columns, schema, len(samples))


def finish(preparation: Preparation, columns: dict[str, Column], schema: Schema, rows: int) -> dict[str, Any]:
    """The columns of records after all steps, as a feed of `batches` gives them."""
    made: dict[str, Any] = columns
    if preparation.transforms:
        made = Chain.of(preparation.transforms).apply_rows(columns, schema.features, range(rows)).columns
    for layout in preparation.layout:
        made, _ = layout.apply(made)
    arrays = {name: as_array(name, column) for name, column in made.items()}
    return {name: aligned(array) if is_numeric(array) else array for name, array in arrays.items()}


def is_numeric(value: Any) -> bool:
    """Whether it is an array of numbers, not of bytes."""
    return isinstance(value, np.ndarray) and value.dtype != object


def columns_of(samples: Sequence[Sample], schema: Schema, features: Sequence[str]) -> dict[str, Column]:
    """Samples as the columns that reading them from records would give."""
    if not samples:
        raise ValueError("samples must hold at least one sample, got none")
    columns: dict[str, Column] = {}
    for name in features:
        feature = schema[name]
        values = [sample.get(name) for sample in samples]
        for sample, value in zip(samples, values, strict=True):
            if value is None and feature.required:
                raise MissingName("feature", name, sample, where="sample")
        columns[name] = _column(values, feature, name)
    return columns


def _column(values: list[Any], feature: Feature, name: str) -> Any:
    if feature.encoding == "sparse":
        for value in values:
            if not isinstance(value, SparseRow):
                raise SchemaMismatch(f"expected {feature.describe()}, got {type(value).__name__}", at=name)
        return SparseColumn.of(values)
    if feature.sequence:
        column: Column = _lists(values, feature, name, depth=1)
    elif feature.is_ragged:
        column = _lists(values, feature, name, depth=0)
    elif not feature.required:
        return _optional(values, feature, name)
    else:
        column = _dense(values, feature, name)
    if feature.required or feature.sequence or not isinstance(column, Ragged) or column.present is not None:
        return column
    return Ragged(column.values, column.row_splits, np.array([value is not None for value in values]))


def _optional(values: list[Any], feature: Feature, name: str) -> Ragged:
    """A column where rows may lack the feature."""
    present = np.array([value is not None for value in values])
    filled = as_ragged(_dense([value for value in values if value is not None], feature, name))
    splits = np.zeros(len(values) + 1, np.int64)
    splits[1:][present] = filled.lengths
    return Ragged(filled.values, np.cumsum(splits), present)


def _lists(values: list[Any], feature: Feature, name: str, *, depth: int) -> Ragged:
    """Rows of several values each; at depth 1 of several steps each, of which each may be of several values."""
    splits = np.zeros(len(values) + 1, np.int64)
    rows = [() if value is None else value for value in values]
    np.cumsum([_length(row, name) for row in rows], out=splits[1:])
    flat = [inner for row in rows for inner in row]
    one = msgspec.structs.replace(feature, sequence=False, shape=feature.shape if depth else feature.shape[1:])
    inner = _lists(flat, one, name, depth=0) if depth and feature.is_ragged else _dense(flat, one, name)
    present = np.array([value is not None for value in values])
    return Ragged(inner, splits, None if present.all() else present)


def _length(row: Any, name: str) -> int:
    if isinstance(row, str | bytes) or not hasattr(row, "__len__"):
        raise SchemaMismatch(f"expected a list, got {type(row).__name__}", at=name)
    return len(row)


def _dense(values: list[Any], feature: Feature, name: str) -> Column:
    if feature.kind == BYTES_KIND and feature.encoding != "raw":
        return _texts(values, feature, name)
    shape = tuple(size for size in feature.shape if size is not None)
    out = np.empty((len(values), *shape), feature.dtype)
    for row, value in enumerate(values):
        out[row] = _numbers(value, feature, shape, name)
    return out


def _texts(values: list[Any], feature: Feature, name: str) -> Column:
    if feature.shape and feature.encoding == "list":
        count = int(np.prod([size or 0 for size in feature.shape]))
        for value in values:
            if _length(value, name) != count:
                raise SchemaMismatch(f"expected {count} values, got {len(value)}", at=name)
        return Ragged.of(values)
    for value in values:
        if not isinstance(value, bytes | str):
            raise SchemaMismatch(f"expected {feature.describe()}, got {type(value).__name__}", at=name)
    return BytesColumn.of(values)


def _numbers(value: Any, feature: Feature, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        got = repr(value) if isinstance(value, str) and len(value) < 40 else type(value).__name__
        raise SchemaMismatch(f"expected {feature.describe()}, got {got}", at=name)
    if array.shape != shape:
        if array.size != int(np.prod(shape)):
            raise SchemaMismatch(f"expected {feature.describe()}, got {array.size} values", at=name)
        array = array.reshape(shape)
    if np.dtype(feature.dtype).kind in "iu" and array.dtype.kind == "f" and not np.all(array == np.rint(array)):
        raise SchemaMismatch(f"expected {feature.describe()}, got {array.flat[0]!r}", at=name)
    return array.astype(feature.dtype)


def as_array(name: str, column: Any) -> Any:
    """A column as a model takes it: what a row lacks is NaN or empty text, what is sparse has its zeros.

    Rows of different lengths stay as they are.
    """
    if isinstance(column, BytesColumn):
        return column.to_numpy()
    if isinstance(column, SparseColumn):
        return column.to_dense()
    if isinstance(column, Ragged) and column.present is not None:
        return _filled(name, column, column.present)
    return column


def _filled(name: str, column: Ragged, present: NDArray[np.bool_]) -> Any:
    if (column.lengths[present] != 1).any():
        raise SchemaMismatch("a list that some records lack cannot be fed to a model", at=name)
    values = column.values
    if isinstance(values, BytesColumn):
        texts = np.full(len(column), b"", object)
        texts[present] = values.to_numpy()
        return texts
    if not isinstance(values, np.ndarray):
        raise SchemaMismatch("lists of lists cannot be fed to a model", at=name)
    out = np.full((len(column), *values.shape[1:]), np.nan, np.float32)
    out[present] = values
    return out
