"""Columns in temporary files that other processes map, so that a source in memory is cheap to pickle."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn

__all__ = ["is_spooled", "load_columns", "spool_columns", "write_columns"]

_SPARSE = ("places", "values", "row_splits")


def is_spooled(spooled: Path | None, folder: Path | None) -> bool:
    """Whether columns are written already, and where they have to be."""
    return spooled is not None and (spooled / "columns.json").exists() and folder in (None, spooled.parent)


def spool_columns(columns: dict[str, Column], within: Path | None) -> Path:
    """Write columns into a new folder `within` another, or within a temporary one; it is removed with this process."""
    if within is not None:
        within.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bushel-", dir=within))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_columns(folder, columns)
    return folder


def write_columns(folder: Path, columns: dict[str, Column]) -> None:
    """Write columns into a folder, for `load_columns`."""
    folder.mkdir(exist_ok=True)
    layout = [_write(folder / str(number), name, column) for number, (name, column) in enumerate(columns.items())]
    (folder / "columns.json").write_text(json.dumps(layout))


def _write(stem: Path, name: str, column: Any) -> dict[str, Any]:
    if isinstance(column, BytesColumn):
        _save(stem, "offsets", column.offsets)
        _save(stem, "data", column.data)
        return {"name": name, "kind": "bytes"}
    if isinstance(column, Ragged):
        _save(stem, "splits", column.row_splits)
        if column.present is not None:
            _save(stem, "present", column.present)
        inner = _write(stem.with_name(f"{stem.name}.values"), name, column.values)
        return {"name": name, "kind": "ragged", "values": inner, "present": column.present is not None}
    if isinstance(column, SparseColumn):
        for part in _SPARSE:
            _save(stem, part, getattr(column, part))
        return {"name": name, "kind": "sparse", "size": column.size}
    _save(stem, "array", column)
    return {"name": name, "kind": "array"}


def _save(stem: Path, part: str, array: NDArray[Any]) -> None:
    np.save(stem.with_name(f"{stem.name}.{part}.npy"), array, allow_pickle=False)


def load_columns(folder: Path) -> dict[str, Column]:
    """Map what `spool_columns` wrote."""
    layout = json.loads((folder / "columns.json").read_text())
    return {column["name"]: _read(folder / str(number), column) for number, column in enumerate(layout)}


def _read(stem: Path, layout: dict[str, Any]) -> Any:
    if layout["kind"] == "bytes":
        return BytesColumn(_map(stem, "offsets"), _map(stem, "data"))
    if layout["kind"] == "ragged":
        present = _map(stem, "present") if layout["present"] else None
        return Ragged(_read(stem.with_name(f"{stem.name}.values"), layout["values"]), _map(stem, "splits"), present)
    if layout["kind"] == "sparse":
        places, values, splits = (_map(stem, part) for part in _SPARSE)
        return SparseColumn(places, values, splits, layout["size"])
    return _map(stem, "array")


def _map(stem: Path, part: str) -> NDArray[Any]:
    path = stem.with_name(f"{stem.name}.{part}.npy")
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asarray(array)
