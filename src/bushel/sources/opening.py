"""From a path to the source it is."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from bushel.errors import FileProblem, nearest
from bushel.records.files import open_file
from bushel.sources.detection.box_tables import has_boxes
from bushel.sources.detection.boxed_images import boxes, coco, voc, yolo
from bushel.sources.detection.coco import is_coco
from bushel.sources.detection.voc import is_voc
from bushel.sources.detection.yolo import is_yolo
from bushel.sources.images.image_folder import images, is_image_name
from bushel.sources.images.tiles import tiles
from bushel.sources.memory.arrays import arrays
from bushel.sources.protocol import Source
from bushel.sources.record_files import records
from bushel.sources.series.series import series
from bushel.sources.tables.hugging_face import huggingface, is_dataset_folder
from bushel.sources.tables.table import SUFFIXES, table
from bushel.sources.tars import webdataset
from bushel.sources.texts.text_files import is_text_name, text
from bushel.sources.videos.clips import is_video_name, video
from bushel.storage import AnyPath, ObjectPath, as_path, list_files
from bushel.storage.file_kinds import what_is

__all__ = ["open_source"]

_KINDS: dict[str, Callable[..., Any]] = {
    "arrays": arrays,
    "boxes": boxes,
    "coco": coco,
    "huggingface": huggingface,
    "images": images,
    "records": records,
    "series": series,
    "table": table,
    "text": text,
    "tiles": tiles,
    "video": video,
    "voc": voc,
    "webdataset": webdataset,
    "yolo": yolo,
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".xz")
_LOOKED_AT = 10_000  # files of a folder that tell what is in it


def open_source(source: AnyPath | Mapping[str, Any], **options: Any) -> Source:
    """Tell from a path, or from what `describe()` gave, which source it is, and open it.

    Options are those of the source. `label` is taken by every one, and used where a source must know it: a folder of
    images with a table of labels, windows of a series.
    """
    told = {**source, **options} if isinstance(source, Mapping) else {"path": source, **options}
    kind = told.pop("kind", None)
    if kind is not None and kind not in _KINDS:
        if kind == "iterable":
            raise ValueError("kind must be of a source on disk: what Python code gave cannot be opened from a recipe")
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}{_meant(kind, _KINDS)}")
    if "path" not in told:
        raise ValueError("path must be given: what was in memory cannot be opened from a recipe")
    path = told.pop("path")
    make = _KINDS[kind or kind_of(path)]
    label = told.pop("label", None)
    if label is not None and make is images and "labels" in told:
        told["label_column"] = label
    elif label is not None and make is series:
        told["label"] = label
    _check_options(make, told)
    opened: Source = make(path, **told)
    return opened


def _check_options(make: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = list(inspect.signature(make).parameters)[1:]
    for name in options:
        if name not in known:
            raise ValueError(
                f"{make.__name__} has no option {name!r}{_meant(name, known)} (there are: {', '.join(known)})"
            )


def _meant(name: str, names: Any) -> str:
    close = nearest(name, names)
    return f"; did you mean {close!r}?" if close else ""


def kind_of(path: Any) -> str:
    """Which source a path is, told by what is there."""
    if isinstance(path, str | os.PathLike) and as_path(path).is_dir():
        return _kind_of_folder(as_path(path))
    return _kind_of_file(list_files(path)[0])


def _kind_of_file(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSED]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".json" and path.suffix.lower() == ".json" and is_coco(path):
        return "coco"
    if suffix in (".csv", ".tsv") and has_boxes(_header(path)):
        return "boxes"
    if suffix in SUFFIXES:
        return "table"
    if is_video_name(path.name):
        return "video"
    if suffix in (".npy", ".npz"):
        return "arrays"
    if suffix in (".tar", ".tgz"):
        return "webdataset"
    if suffix in (".txt", ".text"):
        return "text"
    if suffix.startswith(".tfrecord") or ".tfrecord" in path.name.lower() or ".tfrec" in path.name.lower():
        return "records"
    return _kind_by_bytes(path)


def _header(path: Path) -> list[str]:
    """The names in the first line of a table; none where it is compressed."""
    with path.open("rb") as file:
        first = file.read(1 << 14).split(b"\n")[0].decode("utf-8-sig", errors="replace").strip()
    return [name.strip("\"' ") for name in re.split(r"[,;\t|]", first)]


def _kind_by_bytes(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512)
    what = what_is(head)
    by_name = {
        "a Parquet file": "table",
        "an Arrow file": "table",
        "a NumPy file": "arrays",
        "a tar archive": "webdataset",
    }
    if what in by_name:
        return by_name[what]
    try:
        file_ = open_file(path)
        next(iter(file_.chunks()), None)
    except (FileProblem, LookupError, ValueError):
        pass
    else:
        return "records"
    known = "images, .csv, .tsv, .jsonl, .parquet, .arrow, .npy, .npz, .txt, .tar, .tfrecord"
    raise FileProblem(
        path, f"is no source that bushel knows: it is {what or 'something unknown'}", help=[f"It reads {known}"]
    )


def _kind_of_folder(folder: Path) -> str:
    if is_dataset_folder(folder):
        return "huggingface"
    if (folder / "dataset.json").exists():
        return "records"
    if is_voc(folder):
        return "voc"
    if is_yolo(folder):
        return "yolo"
    names = [name for name in islice(_names_below(folder), _LOOKED_AT) if not name.startswith((".", "_"))]
    if not names:
        raise FileProblem(folder, "there are no files in this folder")
    kinds: dict[str, int] = {}
    for name in names:
        if (kind := _kind_of_name(name)) is not None:
            kinds[kind] = kinds.get(kind, 0) + 1
    if kinds:
        # Text beside other things is captions, notes and licences; a table beside many images says their labels.
        return max(kinds, key=lambda kind: kinds[kind] * (0.1 if kind == "text" else 1))
    shown = ", ".join(sorted(set(names))[:3])
    raise FileProblem(
        folder,
        f"there is nothing in this folder that bushel reads: {shown}",
        help=["Images, text, tables, TFRecords or tars were looked for."],
    )


def _names_below(folder: Path) -> Any:
    if isinstance(folder, ObjectPath):
        depth = len(folder.parts)
        inside = (path for path in folder.below() if not any(part[0] in "._" for part in path.parts[depth:-1]))
        yield from (path.name for path in inside)
        return
    for _, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from sorted(files)


def _kind_of_name(name: str) -> str | None:
    if is_image_name(name):
        return "images"
    if is_video_name(name):
        return "video"
    suffix = Path(name.lower().removesuffix(".gz")).suffix
    if ".tfrecord" in name.lower() or ".tfrec" in name.lower():
        return "records"
    if suffix in SUFFIXES:
        return "table"
    if suffix in (".tar", ".tgz"):
        return "webdataset"
    return "text" if is_text_name(name) else None
