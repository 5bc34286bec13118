"""One part of a dataset as files: Parquet, tars of WebDataset, JSON lines, TFRecords, or a folder of files by class."""

from __future__ import annotations

import base64
import io
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bushel.data.categories import Label
from bushel.data.columns import BytesColumn, Column, SparseRow, to_arrow
from bushel.data.encoding import Constraint, Narrowings, RecordEncoder
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema
from bushel.data.tfds import tfds_files
from bushel.errors import BushelError, SchemaMismatch
from bushel.pixels.codecs import encode_pixels
from bushel.storage import write_whole
from bushel.storage.file_kinds import kind_of_bytes, kind_of_name

__all__ = [
    "Content",
    "Part",
    "write_description",
    "write_folder",
    "write_jsonl",
    "write_parquet",
    "write_tfds",
    "write_webdataset",
]


class Part(NamedTuple):
    """Some records of a split, which become one file, or files of one folder."""

    split: str
    number: int
    of: int
    first: int
    end: int

    @property
    def records(self) -> int:
        """How many there are."""
        return self.end - self.first

    @property
    def name(self) -> str:
        """What its file is called, without a suffix."""
        return f"{self.split}-{self.number:05d}-of-{self.of:05d}"


@dataclass(frozen=True)
class Content:
    """What records hold."""

    schema: Schema
    label: str
    classes: tuple[str, ...]

    def named(self, columns: dict[str, Column]) -> dict[str, Column]:
        """The columns with class names instead of codes."""
        codes = columns.get(self.label)
        if not self.classes or not isinstance(codes, np.ndarray) or codes.ndim != 1 or codes.dtype.kind not in "iu":
            return columns
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.classes):
            bad = int(codes[(codes < 0) | (codes >= len(self.classes))][0])
            raise SchemaMismatch(f"the label {bad} has no name among {len(self.classes)} classes", at=self.label)
        return {**columns, self.label: BytesColumn.of(self.classes).take(codes)}

    @property
    def features(self) -> dict[str, Feature]:
        """The features, with the label as text if classes have names."""
        found = dict(self.schema.features)
        if self.classes and self.label in found and found[self.label].shape == ():
            found[self.label] = Feature(dtype="str")
        return found

    def samples(self, blocks: Iterator[dict[str, Column]]) -> Iterator[Sample]:
        """All samples, with class names."""
        features = self.features
        for columns in blocks:
            named = self.named(columns)
            count = len(next(iter(named.values()))) if named else 0
            yield from (sample_at(named, features, row) for row in range(count))


def write_parquet(folder: Path, part: Part, content: Content, blocks: Iterator[dict[str, Column]]) -> Counter[str]:
    """A Parquet file with a row group per block; the schema of bushel is in its metadata."""
    import pyarrow.parquet as pq

    writer, kind = None, None
    with write_whole(folder / f"{part.name}.parquet") as file:
        for columns in blocks:
            table = to_arrow(content.named(columns), content.features)
            if writer is None:
                kind = table.schema.with_metadata({"bushel": msgspec.json.encode(content.schema)})
                writer = pq.ParquetWriter(file, kind, compression="zstd", write_page_checksum=True)
            try:
                writer.write_table(table.cast(kind))
            except (ValueError, TypeError) as error:
                raise BushelError(f"{part.name}: its values are not of one type: {error}") from None
        if writer is None:
            writer = pq.ParquetWriter(file, to_arrow({}, {}).schema)
        writer.close()
    return Counter()


def write_webdataset(folder: Path, part: Part, content: Content, blocks: Iterator[dict[str, Column]]) -> Counter[str]:
    """A tar with the files of each sample side by side: images, .cls, .txt, .npy, and .json for the rest."""
    used: set[str] = set()
    with write_whole(folder / f"{part.name}.tar") as file, tarfile.open(fileobj=file, mode="w") as archive:
        codes = {name: code for code, name in enumerate(content.classes)}
        for number, sample in enumerate(content.samples(blocks), part.first):
            key = _tar_key(sample, number, used)
            for name, data in _members(sample, content, codes):
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    if content.classes:
        _write_once(folder / "_classes.txt", "".join(f"{name}\n" for name in content.classes).encode())
    return Counter()


def write_tfds(folder: Path, part: Part, content: Content, blocks: Iterator[dict[str, Column]]) -> Counter[str]:
    """A TFRecord file that is not compressed; `write_description` tells TensorFlow Datasets about all of them."""
    encoder = RecordEncoder(content.schema, constraints=dict.fromkeys(content.schema, Constraint(finite=False)))
    with write_whole(folder / f"{part.name}.tfrecord") as file:
        for columns in blocks:
            rows = np.arange(len(next(iter(columns.values()))))
            records, refused = encoder.encode(columns, rows, set(), Narrowings())
            if refused:
                raise BushelError(f"{part.name}: a record cannot be written: {refused[0][1]}")
            if records is not None:
                file.write(records.data)
    return Counter()


def write_description(folder: Path, content: Content, records: Mapping[Part, int]) -> None:
    """The files that let TensorFlow Datasets read what `write_tfds` wrote; `records` are those of each part."""
    shards: dict[str, list[tuple[int, int]]] = {}
    for part, count in records.items():
        size = (folder / f"{part.name}.tfrecord").stat().st_size
        shards.setdefault(part.split, []).append((count, size))
    label = Label(feature=content.label, task="classification", names=list(content.classes))
    known = label if content.label in content.schema else None
    for name, data in tfds_files(content.schema, known, shards):
        _write_once(folder / name, data)


def _tar_key(sample: Sample, number: int, used: set[str]) -> str:
    """The key of a sample without dots, which end a key in a tar; its number if there is none."""
    given = sample.get("key")
    folder, _, name = str(given if isinstance(given, str) and given else f"{number:08d}").strip("/").rpartition("/")
    whole = f"{folder}/{name.rpartition('.')[0] or name}"
    key = re.sub(r"[^\w/-]", "_", whole).lstrip("/_")
    key = key if key and key not in used else f"{key}_{number:08d}"
    used.add(key)
    return key


def _members(sample: Sample, content: Content, codes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    rest: dict[str, Any] = {}
    for name, value in sample.items():
        plain = name.replace("/", "_").replace(".", "_")
        if name == "key":
            continue
        if name == content.label and isinstance(value, str) and value in codes:
            yield "cls", str(codes[value]).encode()
        elif _is_image(content.schema.features.get(name), value):
            suffix = _suffix_of(value)
            yield (suffix if name in ("image", "image/encoded") else f"{plain}.{suffix}"), value
        elif name == "text" and isinstance(value, str):
            yield "txt", value.encode()
        elif isinstance(value, bytes):
            yield plain, value
        elif isinstance(value, np.ndarray):
            out = io.BytesIO()
            np.save(out, value, allow_pickle=False)
            yield f"{plain}.npy", out.getvalue()
        else:
            rest[name] = _jsonable(value, Counter())
    if rest:
        yield "json", msgspec.json.encode(rest)


def write_jsonl(folder: Path, part: Part, content: Content, blocks: Iterator[dict[str, Column]]) -> Counter[str]:
    """A file of JSON lines; images are files next to it, and other bytes base64."""
    notes = Counter[str]()
    with write_whole(folder / f"{part.name}.jsonl") as file:
        for number, sample in enumerate(content.samples(blocks)):
            line = {
                name: _image_file(folder, part, number, name, value)
                if _is_image(content.schema.features.get(name), value)
                else _jsonable(value, notes)
                for name, value in sample.items()
            }
            file.write(msgspec.json.encode(line) + b"\n")
    return notes


def _image_file(folder: Path, part: Part, number: int, name: str, data: bytes) -> str:
    plain = re.sub(r"[^\w-]", "_", name)
    path = f"{plain}/{part.name}/{number:06d}.{_suffix_of(data)}"
    _write_once(folder / path, data)
    return path


def _jsonable(value: Any, notes: Counter[str]) -> Any:
    if isinstance(value, bytes):
        notes["values of bytes, written in base64"] += 1
        return base64.b64encode(value).decode()
    if isinstance(value, SparseRow):
        return {"indices": value.places.tolist(), "values": value.values.tolist()}
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist(), notes)
    if isinstance(value, np.generic):
        return _jsonable(value.item(), notes)
    if isinstance(value, list | tuple):
        return [_jsonable(one, notes) for one in value]
    if isinstance(value, float) and not np.isfinite(value):
        notes["numbers that are not finite, written as null"] += 1
        return None
    return value


_OF_IMAGES = ("height", "width", "channels", "format", "filename", "source_id")


def write_folder(folder: Path, part: Part, content: Content, blocks: Iterator[dict[str, Column]]) -> Counter[str]:
    """A file per sample, SPLIT/CLASS/NAME, as `build` and many others read it: images, or texts."""
    main = _main_feature(content)
    described = {main, "key", *(f"image/{name}" for name in _OF_IMAGES)}
    has_class = content.label in content.schema and content.schema[content.label].shape == ()
    described |= {content.label} if has_class else set()
    left_out = [name for name in content.schema if name not in described]
    notes = Counter({f"records without their {name}, which a folder does not hold": 0 for name in left_out})
    for number, sample in enumerate(content.samples(blocks), part.first):
        data, suffix = _as_file(sample[main])
        label = sample.get(content.label) if has_class else None
        folders = [part.split, *([str(label)] if label is not None and label != "" else [])]
        name = _file_name(sample, number, suffix, folders)
        _write_once(folder.joinpath(*map(_safe, folders), name), data)
        for other in left_out:
            if other in sample:
                notes[f"records without their {other}, which a folder does not hold"] += 1
    return Counter({what: count for what, count in notes.items() if count})


def _main_feature(content: Content) -> str:
    """The feature that becomes a file: the only image, raw pixels, or the text."""
    features = content.schema.features
    single = {name: one for name, one in features.items() if not one.sequence}
    images = [name for name, one in single.items() if one.encoding in IMAGE_ENCODINGS and one.shape == ()]
    pixels = [name for name, one in single.items() if one.dtype == "uint8" and _is_picture(one.shape)]
    texts = [name for name in ("text",) if name in features and features[name].dtype == "str"]
    found = images or pixels or texts
    if len(found) != 1:
        what = "several features of images" if found else "neither an image nor a text"
        raise BushelError(
            f"a folder holds one file per record, and these records have {what}: {', '.join(features)}",
            help=["Choose another format: parquet, webdataset or jsonl."],
        )
    return found[0]


def _is_picture(shape: tuple[int | None, ...]) -> bool:
    return len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))


def _as_file(value: Any) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, _suffix_of(value)
    if isinstance(value, str):
        return value.encode(), "txt"
    pixels = np.asarray(value)
    return encode_pixels(pixels if pixels.ndim == 3 else pixels[:, :, None], "png"), "png"


def _file_name(sample: Sample, number: int, suffix: str, folders: list[str]) -> str:
    """The key below the folders of its split and class, in one name; different keys have different names."""
    key = sample.get("key")
    if not isinstance(key, str) or not key:
        return f"{number:08d}.{suffix}"
    parts = key.strip("/").split("/")
    for folder in folders:
        parts = parts[1:] if len(parts) > 1 and parts[0] == folder else parts
    name = "__".join(parts)
    kind = kind_of_name(name)
    is_right = kind is not None and f".{suffix}" in kind.suffixes
    return _safe(name if is_right else f"{name}.{suffix}")


def _safe(name: str) -> str:
    """A name that cannot leave its folder."""
    found = re.sub(r"[\x00-\x1f/\\]", "_", name).strip()
    return found if found.strip(".") else f"_{found}"


def _is_image(feature: Feature | None, value: Any) -> bool:
    return isinstance(value, bytes) and feature is not None and feature.encoding in IMAGE_ENCODINGS


def _suffix_of(data: bytes) -> str:
    kind = kind_of_bytes(data[:512])
    return kind.suffixes[0][1:] if kind is not None and kind.suffixes else "bin"


def _write_once(path: Path, data: bytes) -> None:
    """Write a file; the same one may have been written by a run that was stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.write_bytes(data)
    temporary.replace(path)
