"""Which source a path stands for."""

from __future__ import annotations

import glob
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from bushel.data.schema import IMAGE_ENCODINGS
from bushel.errors import BushelError, FileProblem, nearest
from bushel.parallel import Helpers
from bushel.plugins import load_plugin, plugins
from bushel.records.files import ELWC, not_examples, open_file, refuse_others
from bushel.records.manifest import has_manifest
from bushel.sources.array_source import arrays, is_arrow
from bushel.sources.detection.annotation_files import coco_files, is_coco, is_voc, is_yolo
from bushel.sources.detection.annotations import box_tables, has_boxes, header_of
from bushel.sources.detection.boxed_images import annotated, boxes, coco, voc, yolo
from bushel.sources.detection.tool_files import find_tool
from bushel.sources.file_labels import FileLabels, LabelTable
from bushel.sources.folders import is_file_of
from bushel.sources.image_folder import images
from bushel.sources.image_tiles import tiles
from bushel.sources.in_memory import is_sparse, iterable
from bushel.sources.marked import marked
from bushel.sources.mask_folder import find_mask_pair, masks
from bushel.sources.protocol import Source, check_names, options_of
from bushel.sources.record_files import elwc, records
from bushel.sources.sound_files import audio
from bushel.sources.tables.dialect import is_delimited
from bushel.sources.tables.row_sources import sql
from bushel.sources.tables.spreadsheets import excel
from bushel.sources.tables.table import from_datasets, from_stream, huggingface, is_dataset_folder, table
from bushel.sources.tars import webdataset
from bushel.sources.text_files import text
from bushel.sources.time_series import series
from bushel.sources.video_files import video
from bushel.storage import (
    AnyPath,
    as_path,
    list_files,
    names_below,
    open_named,
    paths_below,
    read_named,
    refuse_special,
)
from bushel.storage.file_kinds import KINDS, has_record_name, kind_of_bytes, kind_of_name, what_is

__all__ = ["SOURCES", "is_raw", "kind_of", "open_any", "open_source"]

SOURCES: dict[str, Callable[..., Any]] = {
    "annotated": annotated,
    "arrays": arrays,
    "audio": audio,
    "boxes": boxes,
    "coco": coco,
    "elwc": elwc,
    "excel": excel,
    "huggingface": huggingface,
    "images": images,
    "masks": masks,
    "records": records,
    "series": series,
    "sql": sql,
    "table": table,
    "text": text,
    "tiles": tiles,
    "video": video,
    "voc": voc,
    "webdataset": webdataset,
    "yolo": yolo,
}
_OF_RECORDS = ("records", "elwc")
_READ = [kind.suffixes[0] for kind in KINDS if kind.source not in ("", "images")]
_LOOKED_INTO = 1 << 16  # bytes of a file with an unknown name
_LOOKED_INTO_FILES = 20  # of a folder
_LOOKED_AT = 10_000  # files that are inspected to tell what is in a folder


def open_source(source: AnyPath | Mapping[str, Any], *, helpers: Helpers = None, **options: Any) -> Source:
    """Open the source that a path, or a table from `describe()`, stands for.

    Options are those of the source. Every source accepts `label`, and uses it if it needs to know the label: images
    with a table of labels, windows of a series; and `marks`, a file that `bushel view` wrote: samples that it drops are
    left out, and labels that it changes are changed. `helpers` share the work of scanning many files.
    """
    stated = {**source, **options} if isinstance(source, Mapping) else {"path": source, **options}
    kind = stated.pop("kind", None)
    if (added := _plugin_for(kind, stated.get("path"))) is not None:
        return cast("Source", added(stated.pop("path"), **stated))
    _check_stated(kind, stated)
    path = stated.pop("path")
    marks = stated.pop("marks", None)
    patterns = {what: stated.pop(f"{what}_name") for what in ("label", "group") if f"{what}_name" in stated}
    if kind is None and isinstance(path, str | os.PathLike) and (column := _exported_images(as_path(path))):
        path, stated = f"{path}/*.jsonl", {"image_column": column} | stated
    if isinstance(path, str | os.PathLike) and as_path(path).exists():
        refuse_special(as_path(path), folders=True)
    make = SOURCES[kind or kind_of(path)]
    label = stated.pop("label", None)
    labels = None if "labels" in options_of(make) else stated.pop("labels", None)
    label_column = stated.pop("label_column", label) if labels is not None else None
    if label is not None and make is images and "labels" in stated:
        stated["label_column"] = label
    elif label is not None and make is series:
        stated["label"] = label
    check_names(make, stated)
    if helpers is not None and "helpers" in inspect.signature(make).parameters:
        stated["helpers"] = helpers
    opened: Source = make(path, **stated)
    if labels is not None:
        opened = FileLabels(opened, LabelTable(labels, label_column, str(path)))
    if patterns:
        opened = FileLabels.of(opened, patterns)
    return opened if marks is None else cast("Source", marked(opened, str(marks)))


def _check_stated(kind: Any, stated: Mapping[str, Any]) -> None:
    """Refuse a kind or a path that can be none, such as those of a recipe."""
    if not isinstance(kind, str | None):
        raise ValueError(f"kind must be the name of a source, got {kind!r}")
    if kind is not None and kind not in SOURCES:
        if kind == "iterable":
            raise ValueError("kind must be a source on disk: what Python code made cannot be opened from a recipe")
        raise ValueError(f"kind must be one of {', '.join(SOURCES)}; got {kind!r}{_meant(kind, SOURCES)}")
    if "path" not in stated:
        raise ValueError("path must be given: what was in memory cannot be opened from a recipe")
    if isinstance(path := stated["path"], bool | int | float | dict):
        raise ValueError(f"path must be a path, or a list of them; got {path!r}")


def _plugin_for(kind: str | None, path: object) -> Callable[..., Any] | None:
    """The source of another package for a kind, or for a path by its protocol (`waves://`) or suffix (`.waves`)."""
    names = [kind] if isinstance(kind, str) else []
    if kind is None and isinstance(path, str):
        names = [path.partition("://")[0], os.path.splitext(path)[1].lower()]  # noqa: PTH122 (it may be an address)
    found = next((name for name in names if name in plugins("sources") and name not in SOURCES), None)
    return None if found is None else cast("Callable[..., Any]", load_plugin("sources", found))


def _exported_images(folder: Path) -> str | None:
    """The column of images in the JSON lines of a folder that `bushel export` wrote."""
    try:
        stated = json.loads(read_named(folder / "_export.json"))
        features = stated["schema"]["features"] if stated["format"] == "jsonl" else {}
        return next((name for name, feature in features.items() if feature.get("encoding") in IMAGE_ENCODINGS), None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def open_any(given: Any, helpers: Helpers = None) -> Source:
    """The source itself, or the source for a path, arrays in memory or samples from Python."""
    if isinstance(given, Source):
        return given
    if hasattr(given, "fingerprint") and hasattr(given, "partitions"):
        raise TypeError(f"a source must be a subclass of bushel.sources.Source, and {type(given).__name__} is not")
    if isinstance(given, str | os.PathLike):
        return open_source(given, helpers=helpers)
    if hasattr(given, "save_to_disk"):
        found: Any = from_datasets(given)
        return cast("Source", found)
    if hasattr(given, "collect") and hasattr(given, "collect_schema"):  # a lazy frame of Polars
        given = given.collect()
    if hasattr(given, "scanner"):  # a dataset of pyarrow
        given = given.scanner().to_reader()
    is_in_memory = is_arrow(given) or hasattr(given, "iloc")  # Arrow's tables, frames of Polars and of pandas
    if hasattr(given, "__arrow_c_stream__") and not is_in_memory:
        return cast("Source", from_stream(given))
    is_columns = isinstance(given, Mapping | tuple | np.ndarray) or hasattr(given, "dtypes")
    if is_columns or is_sparse(given) or is_arrow(given):
        return arrays(given)
    return iterable(given)


def is_raw(given: Any) -> bool:
    """Whether this is data that a build would take, and not TFRecords or paths that do not exist."""
    if not isinstance(given, str | os.PathLike):
        are_paths = isinstance(given, list) and all(isinstance(one, str | os.PathLike) for one in given)
        return not are_paths
    path = as_path(given)
    named = kind_of_name(path.name)
    if named is not None and named.source == "records":
        return path.is_file() and not_examples(path) == ELWC
    if not path.exists():  # a pattern: its suffix says what it matches
        return glob.has_magic(str(path)) and named is not None and bool(named.source)
    if has_manifest(path) or (path.is_dir() and _has_named_records(path)):
        return False
    try:
        kind = kind_of(path)
    except (BushelError, OSError, ValueError):
        return False
    if kind == "text" and path.is_dir():
        return not _has_bare_records(path)
    return kind != "records"


def _has_named_records(folder: Path) -> bool:
    """Whether a folder has files named like TFRecords; TensorFlow Datasets keeps JSON next to them."""
    return any(has_record_name(name) for name in islice(names_below(folder), _LOOKED_AT))


def _has_bare_records(folder: Path) -> bool:
    """Whether files without a suffix, which may be texts by their names, are TFRecords."""
    bare = next((path for path in paths_below(folder) if "." not in path.name), None)
    try:
        return bare is not None and _kind_of_file(bare) in _OF_RECORDS
    except FileProblem:
        return False


def _meant(name: str, names: Any) -> str:
    close = nearest(name, names)
    return f"; did you mean {close!r}?" if close else ""


def kind_of(path: Any) -> str:
    """The kind of source at a path."""
    if isinstance(path, str | os.PathLike) and as_path(path).is_dir():
        return _kind_of_folder(as_path(path))
    return _kind_of_file(list_files(path)[0])


def _kind_of_file(path: Path) -> str:
    kind = kind_of_name(path.name)
    if kind is None or not kind.source or kind.source == "images":
        return _kind_by_bytes(path)
    if path.suffix.lower() == ".json" and is_coco(path):
        return "coco"
    if kind.source == "records":
        return _kind_of_records(path)
    if kind.name in ("csv", "tsv") and has_boxes(header_of(path)):
        return "boxes"
    return kind.source


def _kind_of_records(path: Path) -> str:
    what = not_examples(path)
    if what is not None and what != ELWC:
        refuse_others(path)
    return "elwc" if what == ELWC else "records"


def _kind_by_bytes(path: Path) -> str:
    with open_named(path) as file:
        head = file.read(_LOOKED_INTO)
    kind = kind_of_bytes(head)
    if kind is not None and kind.source:
        return kind.source
    if what_is(head[:512]) == "JSON text" or (what_is(head[:512]) == "plain text" and _is_table(head)):
        return "table"
    try:
        next(iter(open_file(path).chunks()), None)
    except (FileProblem, LookupError, ValueError):
        raise _unknown(path, head) from None
    return _kind_of_records(path)


def _is_table(head: bytes) -> bool:
    whole = head if len(head) < _LOOKED_INTO else head[: head.rfind(b"\n") + 1]
    return is_delimited(whole)


def _unknown(path: Path, head: bytes) -> FileProblem:
    what = what_is(head[:512]) or "something unknown"
    if what in ("plain text", "JSON text"):
        format = "csv" if what == "plain text" else "jsonl"
        help = [
            f"If it is a table: --kind table --set format={format}",
            "If each line is a sample: --kind text",
        ]
        return FileProblem(path, f"cannot tell what this is ({what})", help=help)
    help = [f"bushel reads folders of images, texts, sounds or videos, and files such as {', '.join(_READ)}"]
    if what == "a zip archive":
        help = [f"Unpack it, and build from the folder: `unzip {path} -d {path.stem}`"]
    return FileProblem(path, f"cannot be read: it is {what}", help=help)


def _kind_of_folder(folder: Path) -> str:
    if is_dataset_folder(folder):
        return "huggingface"
    if has_manifest(folder):
        return "records"
    annotated = _kind_of_annotations(folder)
    if annotated is not None:
        return annotated
    names = [name for name in islice(names_below(folder), _LOOKED_AT) if not name.startswith((".", "_"))]
    if not names:
        raise FileProblem(folder, "there are no files in this folder")
    kinds: dict[str, int] = {}
    bare = _kind_of_bare(folder) if any("." not in name for name in names) else None
    for name in names:
        kind = bare if bare and "." not in name else _kind_of_name(name)
        if kind is not None:
            kinds[kind] = kinds.get(kind, 0) + 1
    if kinds:
        # Text beside other files is captions, notes and licences; a table beside many images holds their labels.
        found = max(kinds, key=lambda kind: kinds[kind] * (0.1 if kind == "text" else 1))
        if found in ("images", "table", "text") and kinds.get("images", 0) * 2 >= kinds[found]:
            _refuse_unread_annotations(folder)
        return found
    raise _nothing_read(folder, names)


def _nothing_read(folder: Path, names: list[str]) -> FileProblem:
    """What the files of a folder are by their bytes, and the option that reads them, if no suffix is known."""
    suffixes = sorted({Path(name).suffix for name in names if Path(name).suffix})
    found: dict[str, str] = {}
    for path in paths_below(folder):
        if len(found) < _LOOKED_INTO_FILES and path.suffix not in found and path.name[0] not in "._":
            found[path.suffix] = what_is(_head(path)[:512]) or "something unknown"
    shown = ", ".join(f"{suffix or 'no suffix'} is {what}" for suffix, what in sorted(found.items())[:3])
    help = ["bushel looked for images, texts, sounds, videos, tables, TFRecords and tars."]
    if suffixes and all(what in ("plain text", "JSON text") for what in found.values()):
        help = [f"If each file is a text: --kind text --set suffixes={','.join(suffixes)}"]
        if len(suffixes) > 1:
            pattern = r"name:.*\.(\w+)"
            help.append(f"If the suffix is the class, then also: --label '{pattern}'")
    return FileProblem(folder, f"there is nothing in this folder whose suffix bushel knows: {shown}", help=help)


def _kind_of_annotations(folder: Path) -> str | None:
    """The source that reads what is written beside images about them; None if no such file is known."""
    if coco_files(folder):
        return "coco"
    if _has_images(folder):
        if find_tool(folder) is not None:
            return "annotated"
        if box_tables(folder):
            return "boxes"
    if is_voc(folder):
        return "voc"
    if is_yolo(folder):
        return "yolo"
    pair = find_mask_pair(folder)
    return "masks" if pair is not None and pair.is_certain else None


def _has_images(folder: Path) -> bool:
    return any(is_file_of("images", name) for name in islice(names_below(folder), _LOOKED_AT))


def _refuse_unread_annotations(folder: Path) -> None:
    """Stop at images with annotations that are not understood: folders are not taken for classes in their place."""
    paths = [path for path in islice(paths_below(folder), _LOOKED_AT) if not path.name.startswith(".")]
    images = {path.stem for path in paths if is_file_of("images", path.name)}
    others = [path for path in paths if path.suffix.lower() in (".xml", ".json", ".txt")]
    beside = sorted(path for path in others if path.stem in images)
    looked_at = [_is_annotation(path) for path in beside[:_LOOKED_INTO_FILES]]
    if len(beside) * 10 < len(images) or sum(looked_at) * 2 <= len(looked_at):
        beside = []
    lists = [path for path in others if path.suffix.lower() == ".json" and path.stem not in images]
    unread = beside or [path for path in sorted(lists)[:_LOOKED_INTO_FILES] if _has(_LISTED, path)]
    if not unread:
        if (pair := find_mask_pair(folder)) is not None:
            raise FileProblem(
                folder,
                f"{pair.masks!r} looks like masks: its images have few levels, and the same names as {pair.images!r}",
                help=[
                    f"To take them as masks: --kind masks --set images={pair.images} --set masks={pair.masks}",
                    "To take folders for classes, masks too: --kind images",
                ],
            )
        return
    shown = ", ".join(str(path.relative_to(folder)) for path in unread[:3])
    more = f" and {len(unread) - 3:,} more" if len(unread) > 3 else ""
    raise FileProblem(
        folder,
        f"the images have annotations that are not read: {shown}{more}",
        help=[
            "To take the images and leave the annotations out: --kind images (folders are then classes)",
            "If they are boxes: --kind voc, yolo or coco, with --images DIR for the folder of the images",
        ],
    )


_LISTED = re.compile(rb'"(?:annotations|regions)"\s*:\s*\[')  # of all images, in one file
_ANNOTATED = re.compile(
    rb'<annotation|<object|<image\b|"(?:annotations?|shapes|objects|segments_info|regions|imagePath)"\s*:'
)
_BOX_LINES = re.compile(rb"\s*(?:[\w.+-]+[ ,]+){4,}[\w.+-]+\s*")


def _has(what: re.Pattern[bytes], path: Path) -> bool:
    """Whether the beginning of a file has something in it."""
    return what.search(_head(path)) is not None


def _head(path: Path) -> bytes:
    try:
        with open_named(path) as file:
            return file.read(_LOOKED_INTO)
    except OSError:
        return b""


def _is_annotation(path: Path) -> bool:
    """Whether a file says what is in an image: by what is written in it."""
    if path.suffix.lower() != ".txt":
        return _has(_ANNOTATED, path)
    lines = [line for line in _head(path).splitlines()[:5] if line.strip()]
    return bool(lines) and all(
        _BOX_LINES.fullmatch(line) and sum(part[:1].isdigit() for part in re.split(rb"[ ,]+", line.strip())) >= 4
        for line in lines
    )


def _kind_of_bare(folder: Path) -> str | None:
    """The kind of the first files without a suffix, if their bytes agree."""
    found = set()
    for path in islice((path for path in paths_below(folder) if "." not in path.name), _LOOKED_INTO_FILES):
        with open_named(path) as file:
            kind = kind_of_bytes(file.read(512))
        found |= {kind.source} if kind is not None and kind.source else set()
    return found.pop() if len(found) == 1 else None


def _kind_of_name(name: str) -> str | None:
    kind = kind_of_name(name)
    if kind is not None:
        return kind.source or None
    return "text" if is_file_of("text", name) else None
