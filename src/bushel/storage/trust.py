"""What is data in a call: what came with it is never code, and does not decide what is reported.

The working folder is the user's own, unless it is data.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from bushel.storage.listing import TFDS_INFO, as_path
from bushel.storage.objects import ObjectPath

__all__ = ["data_folders", "is_data"]

_MANIFESTS = ("dataset.json", TFDS_INFO, "contract.json", "run.json", "_export.json")  # of what others may have made


def data_folders(given: Iterable[Any]) -> list[Path]:
    """The folders on this machine that come with what a call is given, whichever way it names them.

    These are folders, those of files and of what patterns match, and all above them that a manifest calls a dataset
    or a run. What is no path is in memory.
    """
    found: dict[Path, None] = {}
    for one in given:
        if not isinstance(one, str | PathLike) or isinstance(path := as_path(one), ObjectPath):
            continue
        for file in _named(path):
            folder = (file if file.is_dir() else file.parent).resolve()
            found |= dict.fromkeys([folder, *_described(folder), *_described(file.absolute().parent)])
    return list(found)


def is_data(folder: Path, folders: Iterable[Path]) -> bool:
    """Whether a folder is, or lies in, one of those that come with data, or in one that a manifest calls a dataset."""
    place = folder.resolve()
    return any(place.is_relative_to(data.resolve()) for data in folders) or bool(_described(place))


def _named(path: Path) -> Iterable[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    parents = dict.fromkeys(Path(name).parent for name in glob.iglob(str(path), recursive=True))
    return list(parents)


def _described(folder: Path) -> list[Path]:
    """The folder and those above it that hold a manifest."""
    return [place for place in (folder, *folder.parents) if any((place / name).is_file() for name in _MANIFESTS)]
