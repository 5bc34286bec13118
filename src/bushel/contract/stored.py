"""Arrays and samples as JSON holds them, bit for bit."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import SparseRow
from bushel.data.samples import Sample

__all__ = [
    "StoredArray",
    "StoredValue",
    "is_same",
    "load_array",
    "load_bytes",
    "load_sample",
    "store_array",
    "store_bytes",
    "store_sample",
]

LARGEST = 4 << 20  # bytes of an array that is kept in full; of a larger one there is its digest


class StoredArray(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An array: its little-endian bytes in C order, deflated, as base64; `sha256` is of the bytes before deflating."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    data: str | None = None  # None where only the digest is kept


class StoredValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a sample; exactly one of these."""

    number: int | float | bool | None = None
    text: str | None = None
    bytes: str | None = None  # base64
    array: StoredArray | None = None
    list: tuple[StoredValue, ...] | None = None
    sparse: tuple[StoredArray, StoredArray, int] | None = None  # places, values, size


def store_array(array: NDArray[Any], *, largest: int = LARGEST) -> StoredArray:
    """An array as JSON holds it."""
    array = np.asarray(array)
    data = little_endian(array).tobytes()
    kept = base64.b64encode(zlib.compress(data, 6)).decode() if len(data) <= largest else None
    return StoredArray(dtype=array.dtype.name, shape=array.shape, sha256=_digest(data), data=kept)


def load_array(stored: StoredArray) -> NDArray[Any] | None:
    """The array that was stored; None if only its digest was kept. Damage is a ValueError."""
    if stored.data is None:
        return None
    dtype = np.dtype(stored.dtype)
    size = math.prod(stored.shape) * dtype.itemsize
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(stored.data, validate=True), size + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a stored array is damaged: {error}") from None
    if len(data) != size or _digest(data) != stored.sha256:
        raise ValueError("a stored array is damaged: its digest does not match")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(stored.shape)


def store_bytes(data: bytes) -> StoredArray:
    """A file as JSON holds it."""
    return store_array(np.frombuffer(data, np.uint8), largest=1 << 62)


def load_bytes(stored: StoredArray) -> bytes:
    """The file that was stored. Damage is a ValueError."""
    array = load_array(stored)
    if array is None:
        raise ValueError("a stored file is damaged: its data is missing")
    return array.tobytes()


def is_same(array: NDArray[Any], stored: StoredArray) -> bool:
    """Whether an array is, bit for bit, the one that was stored."""
    same_kind = array.dtype.name == stored.dtype and array.shape == stored.shape
    return same_kind and _digest(little_endian(array).tobytes()) == stored.sha256


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """The same values with the byte order that is stored."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def store_sample(sample: Sample) -> dict[str, StoredValue]:
    """A sample as JSON holds it."""
    return {name: _store(value) for name, value in sample.items()}


def _store(value: Any) -> StoredValue:
    if isinstance(value, bytes):
        return StoredValue(bytes=base64.b64encode(value).decode())
    if isinstance(value, str):
        return StoredValue(text=value)
    if isinstance(value, list | tuple):
        return StoredValue(list=tuple(_store(inner) for inner in value))
    if isinstance(value, SparseRow):
        places, values = (store_array(part, largest=1 << 62) for part in (value.places, value.values))
        return StoredValue(sparse=(places, values, value.size))
    if isinstance(value, np.ndarray | np.generic):
        return StoredValue(array=store_array(np.asarray(value), largest=1 << 62))
    return StoredValue(number=value)


def load_sample(stored: Mapping[str, StoredValue]) -> Sample:
    """The sample that was stored. Damage is a ValueError."""
    return {name: _load(value) for name, value in stored.items()}


def _load(value: StoredValue) -> Any:
    if value.array is not None:
        return load_array(value.array)
    if value.bytes is not None:
        try:
            return base64.b64decode(value.bytes, validate=True)
        except binascii.Error as error:
            raise ValueError(f"stored bytes are damaged: {error}") from None
    if value.sparse is not None:
        places, values, size = value.sparse
        return SparseRow(np.asarray(load_array(places)), np.asarray(load_array(values)), size)
    if value.list is not None:
        return [_load(inner) for inner in value.list]
    return value.text if value.text is not None else value.number
