"""Something that changes when a source does: names, sizes and times of files, a digest of what is in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import msgspec
import numpy as np

from bushel.columns import BytesColumn, Column, Ragged, SparseColumn
from bushel.storage import AnyPath, as_path, listed

__all__ = ["as_given", "fingerprint_of", "fingerprint_of_arrays"]

_HASHED_WHOLE = 64 << 20  # bytes of an array that are all hashed; of larger ones, as many from evenly spread places
_PIECES = 64


def as_given(paths: AnyPath | Iterable[AnyPath]) -> str | list[str]:
    """Paths and patterns as a recipe keeps them."""
    return str(paths) if isinstance(paths, str | PathLike) else [str(path) for path in paths]


def fingerprint_of(files: Iterable[AnyPath], options: Mapping[str, Any], *more: str) -> str:
    """Of files by name, size and time, of options, and of whatever else is given."""
    digest = hashlib.blake2b(digest_size=16)
    for path in listed([as_path(file) for file in files]):
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    told = {name: value for name, value in options.items() if name != "path"}
    digest.update(msgspec.json.encode(told, order="deterministic"))
    for text in more:
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()


def fingerprint_of_arrays(columns: Mapping[str, Column]) -> str:
    """Of columns by name, type and values."""
    digest = hashlib.blake2b(digest_size=16)
    for name, column in columns.items():
        digest.update(name.encode() + b"\0")
        _add(digest, column)
    return digest.hexdigest()


def _add(digest: Any, column: Any) -> None:
    if isinstance(column, BytesColumn):
        _add(digest, column.offsets)
        _add(digest, column.data)
    elif isinstance(column, Ragged):
        _add(digest, column.row_splits)
        _add(digest, column.values)
        if column.present is not None:
            _add(digest, column.present)
    elif isinstance(column, SparseColumn):
        digest.update(str(column.size).encode())
        for part in (column.row_splits, column.places, column.values):
            _add(digest, part)
    else:
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        if column.nbytes <= _HASHED_WHOLE:
            digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8))
            return
        step = max(1, _HASHED_WHOLE // _PIECES * len(column) // column.nbytes)
        for start in np.linspace(0, len(column) - step, _PIECES).astype(int).tolist():
            digest.update(np.ascontiguousarray(column[start : start + step]).reshape(-1).view(np.uint8))
