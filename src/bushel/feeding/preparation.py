"""What a model is fed, and what it predicts: features, the steps they pass, the tensors that result, and the target.

One value describes it for training, evaluation, prediction and serving, and a contract stores it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, aligned, count_of, with_missing
from bushel.data.dates import to_microseconds
from bushel.data.samples import Sample, column_of
from bushel.data.schema import BYTES_KIND, Feature, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.reading import Batch
from bushel.reading.layout import Bucket, Dense, Pack, Pad, Sparse
from bushel.transforms import BatchTransform, Transform
from bushel.transforms.chain import Chain

TargetKind: TypeAlias = Literal["binary", "multi_class", "multi_label", "regression"]
OutputKind: TypeAlias = Literal["probabilities", "logits", "numbers"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be predicted.

    `classes` are names by code. `values` are what records hold, if that is not the code itself.
    """

    kind: TargetKind
    label: str
    classes: list[str] = []
    values: list[int | str] | None = None
    width: int = 1  # numbers to be predicted, of a regression
    counts: list[int] = []  # records of each class in the train split

    @property
    def is_classes(self) -> bool:
        """Whether each record has exactly one class."""
        return self.kind in ("binary", "multi_class")

    @property
    def outputs(self) -> int:
        """How many numbers a model outputs per record."""
        if self.kind == "regression":
            return self.width
        return 1 if self.kind == "binary" else len(self.classes)

    @property
    def words(self) -> str:
        """The kind, as text."""
        return self.kind.replace("_", "-")


def encode_labels(target: Target, column: Any) -> NDArray[Any]:
    """Labels as numbers: codes, rows of zeros and ones, or the numbers to predict.

    A label that is not one of the classes is an error that names it.
    """
    if target.kind == "regression":
        return np.asarray(flat_labels(target.label, column), np.float32).reshape(-1, target.width)
    if target.kind == "multi_label":
        return _hot(target, column)
    return _codes(target, flat_labels(target.label, column))


def flat_labels(name: str, column: Any) -> Any:
    """The labels of all rows, one after the other."""
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, BytesColumn):
        return values
    if isinstance(values, Ragged):
        raise SchemaMismatch("labels must be numbers or text, got lists of lists", at=name)
    return values.reshape(-1)


def _codes(target: Target, values: Any) -> NDArray[np.int64]:
    if target.values is None:
        codes = np.asarray(values, np.int64)
        bad = np.flatnonzero((codes < 0) | (codes >= len(target.classes)))
    else:
        is_text = isinstance(values, BytesColumn)
        known = np.array(target.values, object if is_text else np.int64)
        given = np.array([text(value) for value in values], object) if is_text else np.asarray(values, np.int64)
        codes = np.minimum(np.searchsorted(known, given), len(known) - 1).astype(np.int64)
        bad = np.flatnonzero(known[codes] != given)
    if len(bad):
        value = values[int(bad[0])]
        raise SchemaMismatch(f"label {value!r} is none of the {len(target.classes)} classes", at=target.label)
    return codes


def text(value: bytes) -> str:
    """A label as text, even if its bytes are not UTF-8."""
    return value.decode("utf-8", "backslashreplace")


def _hot(target: Target, column: Any) -> NDArray[np.float32]:
    if isinstance(column, np.ndarray) and column.shape[1:] == (len(target.classes),):
        return column.astype(np.float32)
    out = np.zeros((len(column), len(target.classes)), np.float32)
    width = int(np.prod(column.shape[1:])) if isinstance(column, np.ndarray) else 1
    lengths = column.lengths if isinstance(column, Ragged) else np.full(len(column), width)
    codes = _codes(target, flat_labels(target.label, column))
    out[np.repeat(np.arange(len(column)), lengths), codes] = 1.0
    return out


def output_kind(kind: str | None, outputs: NDArray[Any]) -> OutputKind:
    """Whether a model outputs probabilities or logits, judging by some outputs, for models that do not say."""
    if kind in (None, "regression"):
        return "numbers"
    rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
    is_inside = bool(rows.size == 0 or (rows.min() >= 0 and rows.max() <= 1 + 1e-3))
    is_alone = kind == "multi_label" or rows.shape[1] == 1
    return "probabilities" if is_inside and (is_alone or _sums_to_1(rows)) else "logits"


def _sums_to_1(rows: NDArray[Any]) -> bool:
    return bool(np.allclose(rows.sum(axis=1), 1, atol=1e-2))


def probabilities(kind: str | None, outputs: NDArray[Any], given: OutputKind) -> NDArray[Any]:
    """The outputs of a model as probabilities per class; numbers of a regression as they are."""
    rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
    if kind in (None, "regression"):
        return rows
    if kind == "multi_label" or rows.shape[1] == 1:
        shares = rows if given == "probabilities" else 1 / (1 + np.exp(-np.clip(rows, -60, 60)))
        return np.asarray(shares if kind == "multi_label" else np.concatenate([1 - shares, shares], axis=1))
    if given == "probabilities":
        return rows
    shifted = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


InputKind: TypeAlias = Literal["image", "clip", "series", "tokens", "text", "sparse", "number", "category"]
LayoutStep: TypeAlias = Pad | Sparse | Dense


class Resizing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an image was resized."""

    height: int
    width: int
    kernel: str = "bilinear"
    antialias: bool = False
    fit: str = "stretch"


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor that a model takes: shape and dtype of one row, and what is known of its values."""

    name: str = ""
    kind: InputKind | None = None  # None if unknown
    dtype: str = "float32"
    shape: tuple[int | None, ...] = ()  # None is a size that varies
    min: float | None = None
    max: float | None = None
    channels: str | None = None  # order of the last axis of an image: RGB, RGBA or GRAY
    resize: Resizing | None = None
    size: int = 0  # of a vocabulary of tokens
    pad: int = 0  # what fills up rows of tokens
    unit: Literal["word", "character"] = "word"  # of a text: characters where a script has no spaces
    length: int = 0  # words or characters of a text that are fed
    cut: float = 0.0  # share of the values of all rows that go beyond its length
    values: list[Any] = []  # of a category, the most frequent first
    mean: list[float] = []
    std: list[float] = []
    has_missing: bool = False  # NaN stands for a missing value


class Preparation(msgspec.Struct, frozen=True):
    """How a sample becomes what the model takes: the features read, what is done to each, and how rows are laid out.

    It is the preparation for evaluation, so it holds nothing random; in training, augmentation runs between
    `transforms` and `scaling`. `build` are the transforms that turn a raw sample into a record. `inputs` describe the
    resulting tensors, if they were chosen.
    """

    features: tuple[str, ...]
    transforms: tuple[Transform, ...] = ()
    layout: tuple[LayoutStep, ...] = ()
    scaling: tuple[Transform, ...] = ()
    build: tuple[Transform, ...] = ()
    inputs: tuple[Input, ...] = ()

    def __post_init__(self) -> None:
        for name in ("features", "transforms", "layout", "scaling", "build", "inputs"):
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        for transform in self.steps:
            if isinstance(transform, BatchTransform):
                raise ValueError(f"transforms must not mix the rows of a batch, got {transform!r}")
        for step in self.layout:
            if isinstance(step, Bucket | Pack):
                raise ValueError(f"layout must keep one row per sample, so Pad, Sparse and Dense only; got {step!r}")

    @property
    def steps(self) -> tuple[Transform, ...]:
        """The transforms from a record to the model's input."""
        return (*self.transforms, *self.scaling)

    @property
    def names(self) -> list[str]:
        """The inputs, by name."""
        return [given.name for given in self.inputs]


class Problem(msgspec.Struct, frozen=True):
    """What a model is fed, and what it predicts: the argument of a function that makes a model."""

    preparation: Preparation
    target: Target

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The tensors that the model takes."""
        return self.preparation.inputs

    @property
    def task(self) -> Target:
        """What is to be predicted."""
        return self.target

    @property
    def outputs(self) -> int:
        """How many numbers the model must output per record."""
        return self.target.outputs

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by code."""
        return self.target.classes

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """The shape of one row, if there is a single input."""
        if len(self.inputs) != 1:
            raise ValueError(f"input_shape needs a single input, and there are {', '.join(self.preparation.names)}")
        return self.inputs[0].shape


def to_record(preparation: Preparation, sample: Sample, label: str | None = None) -> Sample:
    """A raw sample as the build would store it; the label may be missing."""
    chain = Chain.of(preparation.build)
    return (chain if label is None or label in sample else chain.without(label)).apply(sample)


def prepare_samples(preparation: Preparation, schema: Schema, samples: Sequence[Sample]) -> dict[str, Any]:
    """The columns that a model takes, made from records exactly as `batches` makes them."""
    columns: dict[str, Any] = _columns_of(samples, schema, preparation.features)
    if preparation.steps:
        columns = Chain.of(preparation.steps).apply_rows(columns, schema.features, range(len(samples))).columns
    for layout in preparation.layout:
        columns, _ = layout.apply(columns)
    arrays = {name: as_array(name, column) for name, column in columns.items()}
    return {name: aligned(array) if _is_numeric(array) else array for name, array in arrays.items()}


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object


def arrange(arrays: Mapping[str, Any]) -> Any:
    """The argument for calling a model: its only input, or a dict of all."""
    return next(iter(arrays.values())) if len(arrays) == 1 else dict(arrays)


def inputs_of(preparation: Preparation, batch: Batch) -> dict[str, NDArray[Any]]:
    """Each input of a batch as an array; an input that no row has is missing in all rows."""
    return {
        given.name: dense_array(given.name, batch[given.name]) if given.name in batch else _nothing(given, batch)
        for given in preparation.inputs
    }


def _nothing(given: Input, batch: Batch) -> NDArray[Any]:
    if given.dtype == "string":
        return np.full(len(batch.rows), b"", object)
    return np.full((len(batch.rows), *(size or 1 for size in given.shape)), np.nan, np.float32)


def dense_array(name: str, column: Any, help: Sequence[str] = ("Leave it out: columns=[...]",)) -> NDArray[Any]:
    """The same for models that only take arrays: rows of different lengths are refused."""
    array = as_array(name, column)
    if not isinstance(array, np.ndarray):
        what = type(column).__name__.removesuffix("Column").lower()
        raise SchemaMismatch(f"Keras takes arrays, and this is {what}", at=name, help=help)
    return array


def as_array(name: str, column: Any) -> Any:
    """A column as a model takes it: missing values are NaN or empty text, and sparse rows are made dense.

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


def _columns_of(samples: Sequence[Sample], schema: Schema, names: Sequence[str]) -> dict[str, Column]:
    """Samples as columns, as if they had been read from records."""
    if not samples:
        raise ValueError("samples must hold at least one sample, got none")
    columns = {}
    for name in names:
        feature = schema[name]
        for sample in samples:
            if feature.required and sample.get(name) is None:
                raise MissingName("feature", name, sample, where="sample")
        columns[name] = _column([sample.get(name) for sample in samples], feature, name)
    return columns


def _column(values: list[Any], feature: Feature, name: str) -> Any:
    if feature.encoding == "sparse":
        return column_of(values, feature, name=name)
    if feature.meaning == "date":
        values = [to_microseconds(value) for value in values]
    present = np.array([value is not None for value in values])
    column = _as_stored(column_of([value for value in values if value is not None], feature, name=name), feature, name)
    is_whole = feature.required or (feature.sequence and present.all())
    return column if is_whole else with_missing(column, present)


def _as_stored(column: Any, feature: Feature, name: str) -> Any:
    """A column with the type and shape of its feature; values that do not fit are refused."""
    if feature.sequence or feature.is_ragged:
        if not isinstance(column, Ragged):
            raise SchemaMismatch(f"expected {feature.describe()}, got {_what(column)}", at=name)
        return Ragged(_typed(column.values, feature, name), column.row_splits, column.present)
    typed = _typed(column, feature, name)
    count = count_of(feature.shape)
    if isinstance(typed, Ragged) and (isinstance(typed.values, np.ndarray) or (typed.lengths != count).any()):
        raise SchemaMismatch(f"expected {feature.describe()}, got {int(typed.lengths[0])} values", at=name)
    if not isinstance(typed, np.ndarray) or typed.shape[1:] == feature.shape:
        return typed
    if typed.size != len(typed) * count:
        raise SchemaMismatch(f"expected {feature.describe()}, got {count_of(typed.shape[1:])} values", at=name)
    return typed.reshape(len(typed), *(size or 0 for size in feature.shape))


def _typed(column: Any, feature: Feature, name: str) -> Any:
    if isinstance(column, Ragged):
        return Ragged(_typed(column.values, feature, name), column.row_splits, column.present)
    is_text = feature.kind == BYTES_KIND and feature.encoding != "raw"
    if is_text and not len(column):
        return BytesColumn.of([])  # an empty list has no type
    if isinstance(column, BytesColumn) != is_text:
        raise SchemaMismatch(f"expected {feature.describe()}, got {_what(column)}", at=name)
    if is_text:
        return column
    if np.dtype(feature.dtype).kind in "iu" and column.dtype.kind == "f":
        broken = column[column != np.rint(column)]
        if broken.size:
            raise SchemaMismatch(f"expected {feature.describe()}, got {broken.flat[0].item()!r}", at=name)
    return column.astype(feature.dtype, copy=False)


def _what(column: Any) -> str:
    if isinstance(column, BytesColumn):
        return repr(column[0].decode("utf-8", "backslashreplace")[:40]) if len(column) else "text"
    return f"{column.dtype}" if isinstance(column, np.ndarray) else "lists"
