"""Hugging Face datasets on disk: written by `save_to_disk`, or Parquet files of the Hub. `datasets` is not needed."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from bushel.data.columns import need_arrow
from bushel.data.splits import split_of_file
from bushel.errors import FileProblem, understood
from bushel.sources.image_checks import Allow, HowVerified, ImageCheck, ImageColumn, KeepBytes, allowed
from bushel.sources.protocol import check_values, recipe_table
from bushel.sources.tables.table import Format, TableSource
from bushel.storage import AnyPath, as_path, leaves, local_copy, natural_order

__all__ = ["huggingface"]


def huggingface(
    path: AnyPath,
    *,
    columns: Annotated[Sequence[str] | None, "Columns to keep (default: all)"] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> TableSource:
    """Take samples from a dataset that `datasets` saved to disk, or from the Parquet files of one.

    Splits are kept, class labels become their names, and images are loaded and checked as `images` does.
    """
    arguments = locals()
    need_arrow("reading datasets of Hugging Face")
    check_values(huggingface, arguments)
    folder = as_path(path)
    files, splits = _files_of(folder)
    format: Format = "arrow" if files[0].suffix == ".arrow" else "parquet"
    stated = _features_of(files[0], format)
    names = {name: tuple(feature["names"]) for name, feature in stated.items() if feature.get("_type") == "ClassLabel"}
    images = [name for name, feature in stated.items() if feature.get("_type") == "Image"]
    sounds = [name for name, feature in stated.items() if feature.get("_type") == "Audio"]
    check = ImageCheck(verify, keep_bytes, allowed(allow))
    chosen = None if columns is None else set(columns)
    source = TableSource(
        files=tuple(str(file) for file in files),
        format=format,
        recipe=recipe_table(huggingface, str(path), arguments | {"allow": check.allow}, always=("verify",)),
        columns=None if columns is None else tuple(columns),
        key=key,
        rename={f"{name}/bytes": name for name in sounds if chosen is None},
        names={name: found for name, found in names.items() if chosen is None or name in chosen},
        image=ImageColumn(images[0], str(folder), check) if images and (not chosen or images[0] in chosen) else None,
        splits=tuple(splits) if any(splits) else (),
    )
    source.check()
    return source


def from_datasets(data: Any) -> TableSource:
    """Take samples from a Hugging Face `Dataset` or `DatasetDict`, written to a temporary folder and read from there.

    Memory is bounded, since `datasets` writes what it maps; splits, names of classes and images are as `huggingface`
    has them.
    """
    folder = tempfile.mkdtemp(prefix="bushel-datasets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data.save_to_disk(folder)
    parts = data.values() if isinstance(data, Mapping) else [data]
    prints = [str(getattr(part, "_fingerprint", "")) for part in parts]
    source = huggingface(folder)
    return replace(source, recipe={"kind": "huggingface", "fingerprints": prints}, printed="\n".join(prints))


def is_dataset_folder(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def _files_of(folder: Path) -> tuple[list[Path], list[str]]:
    """Data files, and the split of each; empty if it has none."""
    if (folder / "dataset_dict.json").exists():
        with understood(folder / "dataset_dict.json", "is not what `save_to_disk` writes"):
            names = [str(name) for name in json.loads((folder / "dataset_dict.json").read_text())["splits"]]
        if outside := [name for name in names if name in ("", "..") or "/" in name or leaves(folder, name)]:
            raise FileProblem(folder / "dataset_dict.json", f"names a split that has no folder: {outside[0]!r}")
        found = [(file, split) for split in names for file in _saved_files(folder / split)]
    elif (folder / "state.json").exists():
        found = [(file, "") for file in _saved_files(folder)]
    elif folder.is_dir():
        files = sorted((*folder.rglob("*.parquet"), *folder.rglob("*.arrow")), key=natural_order)
        found = [(file, split_of_file(file) or "") for file in files]
    else:
        raise FileProblem(folder, "there is no such folder" if not folder.exists() else "is a file, not a folder")
    if not found:
        raise FileProblem(folder, "there is no Hugging Face dataset in this folder")
    return [file for file, _ in found], [split for _, split in found]


def _saved_files(folder: Path) -> list[Path]:
    state = folder / "state.json"
    if not state.exists():
        raise FileProblem(state, "there is no such file", help=["Was the dataset saved whole?"])
    with understood(state, "is not what `save_to_disk` writes"):
        names = [str(data["filename"]) for data in json.loads(state.read_text())["_data_files"]]
    if outside := [name for name in names if leaves(folder, name)]:
        raise FileProblem(state, f"names a file outside its folder: {outside[0]!r}")
    return [folder / name for name in names]


def _features_of(file: Path, format: Format) -> dict[str, dict[str, Any]]:
    """The features that `datasets` wrote into the schema of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.exists():
        raise FileProblem(file, "there is no such file", help=["Was the dataset saved whole?"])
    try:
        if format == "parquet":
            schema = pq.read_schema(local_copy(file))
        else:
            with pa.memory_map(str(local_copy(file))) as source:
                schema = pa.ipc.open_stream(source).schema
    except pa.ArrowException as error:
        raise FileProblem(file, f"cannot be read as {format}: {error}") from None
    metadata = (schema.metadata or {}).get(b"huggingface")
    if metadata is None:
        return {}
    features = json.loads(metadata).get("info", {}).get("features") or {}
    return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
