"""Columns as tensors: dense without a copy, ragged as jagged, sparse as CSR, bytes as lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged, SparseColumn, splits_of
from bushel.errors import BushelWarning, SchemaMismatch

__all__ = ["Form", "Parts", "collate", "parts_of", "to_torch"]

Array: TypeAlias = NDArray[Any]
Build: TypeAlias = Callable[[list[Any]], Any]

_WIDER = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
_IMAGE_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Form:
    """What becomes of tensors: the layout of images, and the type of floats."""

    memory_format: Any = None
    dtype: Any = None

    def __post_init__(self) -> None:
        if self.memory_format not in (None, torch.channels_last, torch.contiguous_format):
            raise ValueError(
                "memory_format must be None, torch.channels_last or torch.contiguous_format; "
                f"got {self.memory_format!r}"
            )
        if self.dtype is not None and not (isinstance(self.dtype, torch.dtype) and self.dtype.is_floating_point):
            raise ValueError(f"dtype must be a floating point type of torch, got {self.dtype!r}")

    def apply(self, tensor: Any) -> Any:
        """The tensor in this form. Rows of images become channels x height x width, as convolutions take them."""
        if self.memory_format is not None and tensor.ndim == 4 and tensor.shape[3] in _IMAGE_CHANNELS:
            tensor = tensor.permute(0, 3, 1, 2)  # rows of pixels are channels_last in memory: no copy
            tensor = tensor.contiguous(memory_format=self.memory_format)
        if self.dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        return tensor


_AS_IS = Form()


@dataclass(frozen=True)
class Parts:
    """A column as plain arrays, and how their tensors, wherever they are by then, become one value."""

    arrays: list[Array]
    build: Build


def to_torch(batch: Mapping[str, Any], *, memory_format: Any = None, dtype: Any = None) -> dict[str, Any]:
    """The columns of a batch as tensors, which share its memory where torch allows.

    Ragged columns become jagged nested tensors, sparse ones CSR, bytes lists. Unsigned integers of more than 8 bits are
    widened. With `memory_format`, images become channels x height x width; floats become `dtype`.

    >>> for batch in bushel.batches(train, batch_size=64):
    ...     tensors = bushel.torch.to_torch(batch)
    """
    form, made = Form(memory_format, dtype), {}
    for name, column in batch.items():
        parts = parts_of(name, column, form)
        made[name] = parts.build([tensor_of(array) for array in parts.arrays])
    return made


def tensor_of(array: Array) -> Any:
    """A tensor on the memory of an array; of memory that must not be written, a copy."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def parts_of(name: str, column: Any, form: Form = _AS_IS) -> Parts:
    """Take a column apart for its way to a device."""
    if isinstance(column, BytesColumn):
        values = column.to_list()
        return Parts([], lambda _: values)
    if isinstance(column, SparseColumn):
        return _sparse_parts(name, column, form)
    if isinstance(column, Ragged):
        return _ragged_parts(name, column, form)
    if column.dtype.kind not in "biuf":
        texts = column.tolist()
        return Parts([], lambda _: texts)
    return Parts([_signed(name, column)], lambda tensors: form.apply(tensors[0]))


def _sparse_parts(name: str, column: SparseColumn, form: Form) -> Parts:
    def build(tensors: list[Any]) -> Any:
        splits, places, values = tensors
        _accept_beta()
        # Reading has checked that places ascend and are within the size.
        return torch.sparse_csr_tensor(splits, places, form.apply(values), column.shape, check_invariants=False)

    return Parts([column.row_splits, column.places, _signed(name, column.values)], build)


@cache
def _accept_beta() -> None:
    """Torch warns once that CSR is in beta: whoever reads sparse features has no other choice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0], [], [], (0, 1), check_invariants=False)


def _ragged_parts(name: str, column: Ragged, form: Form) -> Parts:
    if isinstance(column.values, np.ndarray):
        splits = np.ascontiguousarray(column.row_splits)
        return Parts(
            [_signed(name, column.values), splits],
            lambda tensors: torch.nested.nested_tensor_from_jagged(form.apply(tensors[0]), tensors[1]),
        )
    inner = parts_of(name, column.values, form)  # torch knows one level of rows of different lengths: lists do the rest
    ends = column.row_splits.tolist()

    def build(tensors: list[Any]) -> Any:
        values = inner.build(tensors)
        rows = values if isinstance(values, list) else list(values.unbind())
        return [rows[begin:end] for begin, end in pairwise(ends)]

    return Parts(inner.arrays, build)


def _signed(name: str, array: Array) -> Array:
    """Integers in a type that torch computes with."""
    if array.dtype.name not in _WIDER:
        return array
    wider = np.dtype(_WIDER[array.dtype.name])
    _say_widened(name, array.dtype.name, wider.name)
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise SchemaMismatch(f"{int(array.max())} does not fit int64, and torch does not compute with uint64", at=name)
    return array.astype(wider)


@cache
def _say_widened(name: str, narrow: str, wide: str) -> None:
    message = f"{name}: {narrow} becomes {wide}, because torch computes with few unsigned types"
    warnings.warn(message, BushelWarning, stacklevel=6)


def collate(samples: Any) -> Any:
    """Samples as one batch of tensors, for `DataLoader(dataset, collate_fn=bushel.torch.collate)`.

    Arrays of different lengths become jagged nested tensors, bytes and text lists.
    """
    if hasattr(samples, "as_batch"):
        return samples.as_batch()
    first = samples[0]
    if isinstance(first, Mapping):
        return {name: collate([sample[name] for sample in samples]) for name in first}
    if isinstance(first, tuple):
        return tuple(collate(list(values)) for values in zip(*samples, strict=True))
    if isinstance(first, bytes | str):
        return list(samples)
    return _stack(samples)


def _stack(values: Sequence[Any]) -> Any:
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) == 1:
        return tensor_of(_signed("value", np.stack(arrays)))
    joined = Ragged(np.concatenate(arrays), splits_of([len(array) for array in arrays]))
    parts = parts_of("value", joined)
    return parts.build([tensor_of(array) for array in parts.arrays])
