"""Raw files as samples, read in the same way as in the build of the training data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bushel.contract.document import Contract
from bushel.data.columns import BytesColumn
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import BYTES_KIND, IMAGE_ENCODINGS, Feature, Schema
from bushel.errors import BushelError, FileProblem, MissingName, SchemaMismatch
from bushel.feeding.preparation import to_record
from bushel.reading import Split
from bushel.reading.dataset import open as open_dataset
from bushel.records.manifest import has_manifest
from bushel.sources import table, text
from bushel.sources.folders import is_file_of
from bushel.sources.image_checks import UNUSUAL, ImageCheck
from bushel.sources.opening import kind_of, open_source
from bushel.storage import AnyPath, as_path, list_files, natural_order, read_named

_AT_A_TIME = 256  # records that are read at once
_TABLE_OPTIONS = (
    *("rename", "types", "missing_values", "encoding", "delimiter"),
    *("image_column", "verify", "keep_bytes", "allow"),
)
_IMAGES_AT_ONCE = 32
_IMAGE_OPTIONS = ("verify", "keep_bytes", "allow", "max_pixels")


class RawSample(NamedTuple):
    """A sample as it would be stored, and where it comes from; or why it cannot be used."""

    name: str
    sample: Sample | None
    why: str = ""


def read_raw(
    contract: Contract, paths: AnyPath | Iterable[AnyPath], *, split: str | None = None, lines: bool | None = None
) -> Iterator[RawSample]:
    """Samples of files, folders and patterns, taken through the transforms that the training data was built with.

    Whatever a build reads is read, and cut into clips, windows or tiles as there; records are used as they are.
    `split` chooses one of a dataset. `lines` says whether a text file holds one sample per line (default: as in
    the build).
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise ValueError("paths must name at least one file, got none")
    found = [one for path in given for one in _expanded(as_path(path), is_alone=len(given) == 1)]
    return _samples(contract, found, split, lines)


def _samples(
    contract: Contract, paths: list[Path | RawSample], split: str | None, lines: bool | None
) -> Iterator[RawSample]:
    for path in paths:
        if isinstance(path, RawSample):
            yield path
            continue
        kind = _kind(contract, path)
        if kind == "records":
            yield from _records(contract, path, split)
        elif split is not None:
            raise ValueError(f"split must not be given for raw files, got {split!r} and {path}")
        else:
            read = _READERS.get(kind)
            yield from _built(contract, read(contract, path, lines) if read else _by_source(contract, path, kind))


def _expanded(path: Path, *, is_alone: bool) -> list[Path | RawSample]:
    """The files of a pattern; if one of several is missing, the others are still used."""
    try:
        return [path] if path.is_dir() else [*list_files(path)]
    except FileProblem as error:
        if is_alone:
            raise
        return [RawSample(str(path), None, error.what)]


def _kind(contract: Contract, path: Path) -> str:
    """The kind of source at a path; tables and images are cut as in the build, where it made windows or tiles."""
    kind = "images" if path.is_file() and is_file_of("images", path.name) else kind_of(path)
    return _CUT.get((contract.build.get("source", {}).get("kind"), kind), kind)


_CUT = {("series", "table"): "series", ("tiles", "images"): "tiles"}
_OF_TRAINING = ("kind", "path", "time_split", "class_folder")  # what says where training data is, or its splits


def _by_source(contract: Contract, path: Path, kind: str) -> Iterator[RawSample]:
    """Samples of a source with the options of the build: clips of video and sound, windows, tiles, arrays."""
    built = contract.build.get("source", {})
    is_same = built.get("kind") == kind
    options = {name: value for name, value in built.items() if is_same and name not in _OF_TRAINING}
    label = options.pop("label", contract.label) if kind == "series" else None
    source = _opened({**options, "kind": kind, "path": str(path)}, label)
    _refuse_without(contract, source.schema(), path)
    yield from _blocks(source)


def _refuse_without(contract: Contract, there: Schema, where: AnyPath, what: str = "feature") -> None:
    for name, feature in _raw_features(contract).items():
        is_used = feature.required and name != contract.label and name in contract.preparation.features
        if is_used and name not in there:
            raise MissingName(what, name, there, where=where)


def _opened(source: dict[str, Any], label: str | None) -> Any:
    """The source, with the column of its label where it has that column."""
    if label is None:
        return open_source(source)
    try:
        return open_source({**source, "label": label})
    except MissingName as error:
        if error.name != label:
            raise
        return open_source(source)


def _records(contract: Contract, path: Path, split: str | None) -> Iterator[RawSample]:
    data = open_dataset(path, schema=None if has_manifest(path) else _without_label(contract))
    chosen = data.choose(split)
    wanted = [name for name in (*contract.preparation.features, contract.label) if name and name in chosen.schema]
    for name in contract.preparation.features:
        if name not in chosen.schema:
            raise MissingName("feature", name, chosen.schema, where=path)
    for first in range(0, len(chosen), _AT_A_TIME):
        rows = np.arange(first, min(first + _AT_A_TIME, len(chosen)))
        yield from _rows_of(chosen, rows, wanted)


def _without_label(contract: Contract) -> Schema:
    """What records must hold: the label may be missing."""
    return contract.schema.select(list(contract.preparation.features))


def _rows_of(split: Split, rows: Any, wanted: list[str]) -> Iterator[RawSample]:
    numbers = rows if split.rows is None else split.rows[rows]
    try:
        columns = split.read(numbers, wanted)
    except BushelError as error:
        if len(rows) == 1:
            yield RawSample(f"{split.name}:{int(rows[0])}", None, error.message)
            return
        for row in rows:  # one by one, to find the sample at fault
            yield from _rows_of(split, np.array([row]), wanted)
        return
    for at, row in enumerate(rows.tolist()):
        yield RawSample(f"{split.name}:{row}", sample_at(columns, split.schema.features, at))


def _built(contract: Contract, raw: Iterable[RawSample]) -> Iterator[RawSample]:
    """Samples taken through the transforms of the build."""
    for name, sample, why in raw:
        if sample is None:
            yield RawSample(name, None, why)
            continue
        try:
            yield RawSample(name, to_record(contract.preparation, sample, contract.label))
        except BushelError as error:
            yield RawSample(name, None, error.message)


def _options(contract: Contract, names: Sequence[str]) -> dict[str, Any]:
    source: Mapping[str, Any] = contract.build.get("source", {})
    return {name: source[name] for name in names if name in source}


def raw_rows(contract: Contract, rows: Sequence[Any], *, max_pixels: int | None = None) -> list[RawSample]:
    """Rows of JSON as samples: values by the names of the source, and `{"base64": ...}` for images and other bytes.

    The label may be missing, as may what records of training lacked. A row that does not fit says why.
    """
    named = ((f"row {number}", row) for number, row in enumerate(rows))
    return list(_built(contract, (_raw_row(contract, name, row, max_pixels) for name, row in named)))


def raw_bytes(contract: Contract, data: bytes, kind: str, *, max_pixels: int | None = None) -> RawSample:
    """The content of one file as a sample: an image or a text, if that is all that the model takes."""
    try:
        if kind == "text":
            raw = RawSample(kind, {_one_feature(contract, kind, kind, ("list",)): data.decode()})
        else:
            feature = _one_feature(contract, kind, kind, IMAGE_ENCODINGS)
            raw = next(_checked(contract, feature, {kind: data}, max_pixels))
    except UnicodeDecodeError as error:
        raw = RawSample(kind, None, f"byte {error.start} is not UTF-8")
    except SchemaMismatch as error:
        raw = RawSample(kind, None, error.what)
    return next(_built(contract, [raw]))


def _raw_row(contract: Contract, name: str, row: Any, max_pixels: int | None) -> RawSample:
    if not isinstance(row, dict):
        return RawSample(name, None, f"expected an object with values by name, got {_short(row)}")
    features, sample = _raw_features(contract), {}
    try:
        for column, value in row.items():
            if column not in features:
                raise MissingName("column", column, features, where="the data of training")
            if value is not None:
                sample[column] = _raw_value(features[column], value, column)
        for column in [column for column in sample if features[column].encoding in IMAGE_ENCODINGS]:
            image = next(_checked(contract, column, {column: sample[column]}, max_pixels))
            if image.sample is None:
                return RawSample(name, None, f"{column}: {image.why}")
            sample |= image.sample
    except BushelError as error:
        return RawSample(name, None, error.message)
    return RawSample(name, sample)


def _raw_value(feature: Feature, value: Any, name: str) -> Any:
    """A value of JSON as one of a feature. Types are compared here: numbers that are sent as text are a fault."""
    wrong = SchemaMismatch(f"expected {feature.describe()}, got {_short(value)}", at=name)
    if feature.kind != BYTES_KIND or feature.encoding == "raw":
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            raise wrong from None
        if array.dtype.kind not in "biuf":
            raise wrong
        return array if array.ndim else value
    if isinstance(value, list):
        return [_raw_value(feature, inner, name) for inner in value]
    if feature.dtype == "str":
        if isinstance(value, str):
            return value
        raise wrong
    if not isinstance(value, dict) or not isinstance(value.get("base64"), str):
        raise SchemaMismatch(f'expected bytes as {{"base64": "..."}}, got {_short(value)}', at=name)
    try:
        return base64.b64decode(value["base64"], validate=True)
    except ValueError as error:
        raise SchemaMismatch(f"this is not base64: {error}", at=name) from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _images(contract: Contract, path: Path, lines: bool | None) -> Iterator[RawSample]:  # noqa: ARG001
    feature = _one_feature(contract, str(path), "image", IMAGE_ENCODINGS)
    files = _files_below(path, partial(is_file_of, "images"))
    while some := list(islice(files, _IMAGES_AT_ONCE)):
        yield from _checked(contract, feature, {str(file): read_named(file) for file in some})


def _checked(
    contract: Contract, feature: str, images: Mapping[str, bytes], max_pixels: int | None = None
) -> Iterator[RawSample]:
    """Images by name, checked and turned upright as in the build; before that, large ones are refused by the header."""
    if max_pixels is not None:
        by_header = ImageCheck(verify="headers", keep_bytes=True, allow=UNUSUAL, max_pixels=max_pixels)
        large = by_header.check_all(BytesColumn.of(list(images.values())), feature).bad
        yield from (RawSample(name, None, large[row]) for row, name in enumerate(images) if row in large)
        images = {name: data for row, (name, data) in enumerate(images.items()) if row not in large}
    options = _options(contract, _IMAGE_OPTIONS)
    check = ImageCheck(**{**options, "allow": tuple(options.get("allow", ()))})
    checked = check.check_all(BytesColumn.of(list(images.values())), feature)
    places = {row: at for at, row in enumerate(checked.rows)}
    for row, name in enumerate(images):
        is_bad = row in checked.bad
        sample = None if is_bad else sample_at(checked.columns, contract.schema.features, places[row])
        yield RawSample(name, sample, checked.bad.get(row, ""))


def _files_below(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The file itself, or the wanted files below a folder, at any depth."""
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*"), key=natural_order):
        parts = file.relative_to(path).parts
        if not any(part.startswith((".", "_")) for part in parts) and is_wanted(file.name) and file.is_file():
            yield file


def _texts(contract: Contract, path: Path, lines: bool | None) -> Iterator[RawSample]:
    feature = _one_feature(contract, str(path), "text", ("list",))
    encoding = contract.build.get("source", {}).get("encoding")
    if lines is None:
        lines = Path(str(contract.build.get("source", {}).get("path", ""))).suffix != ""
    for file in _files_below(path, partial(is_file_of, "text")):
        if not lines:
            yield _whole(file, feature, encoding or "utf-8-sig")
            continue
        for raw in _blocks(text(file, encoding=encoding)):
            yield raw if raw.sample is None else raw._replace(sample={feature: raw.sample["text"]})


def _whole(path: Path, feature: str, encoding: str) -> RawSample:
    try:
        return RawSample(str(path), {feature: read_named(path).decode(encoding)})
    except UnicodeDecodeError as error:
        return RawSample(str(path), None, f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}")


def _one_feature(contract: Contract, where: str, usual: str, encodings: Sequence[str]) -> str:
    """The feature that a single file is the value of."""
    features = {
        name: feature for name, feature in _raw_features(contract).items() if name not in (contract.label, "key")
    }
    fits = [
        name
        for name, feature in features.items()
        if feature.encoding in encodings and feature.dtype in ("bytes", "str")
    ]
    if len(fits) == 1 or usual in fits:
        return usual if usual in fits else fits[0]
    there = ", ".join(f"{name}: {feature.describe()}" for name, feature in features.items())
    raise SchemaMismatch(f"the model takes no {usual} alone; it takes {there}", at=where)


def _tables(contract: Contract, path: Path, lines: bool | None) -> Iterator[RawSample]:  # noqa: ARG001
    options = _options(contract, _TABLE_OPTIONS)
    old_names = {new: old for old, new in options.get("rename", {}).items()}
    types = _types(contract, table(path, **options), old_names)
    yield from _blocks(table(path, **{**options, "types": {**types, **options.get("types", {})}}))


def _date_type(given: Feature) -> str:
    """The type that makes dates of a column: numbers are taken for microseconds, as records hold them."""
    return "date" if given.meaning == "date" or given.dtype == "str" else "date:us"


def _types(contract: Contract, source: Any, old_names: Mapping[str, str]) -> dict[str, str]:
    """The types of the training data, so that a column of digits that was text stays text."""
    there = source.schema()
    _refuse_without(contract, there, source.describe()["path"], "column")
    types = {}
    for name, feature in _raw_features(contract).items():
        if name in there and feature.encoding == "list" and feature.shape == () and feature.dtype != "bytes":
            types[old_names.get(name, name)] = _date_type(there[name]) if feature.meaning == "date" else feature.dtype
    return types


def _raw_features(contract: Contract) -> Mapping[str, Feature]:
    return contract.raw.features if contract.raw is not None else contract.schema.features


def _blocks(source: Any) -> Iterator[RawSample]:
    schema = source.schema()
    for partition in range(source.partitions()):
        rows = None if source.reads == "sequence" else np.arange(len(source.list(partition, []).keys))
        for block in source.read(partition, rows):
            found = {
                int(row): RawSample(source.locate(partition, int(row)), sample_at(block.columns, schema.features, at))
                for at, row in enumerate(block.rows)
            }
            for refused in block.refused:
                found[refused.row] = RawSample(source.locate(partition, refused.row), None, refused.reason)
            yield from (found[row] for row in sorted(found))


_READERS = {"images": _images, "text": _texts, "table": _tables}
