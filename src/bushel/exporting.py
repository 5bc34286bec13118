"""Datasets in the formats of others: Parquet, WebDataset, JSON lines, TFDS, or a folder of files by class."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.arrow_columns import to_arrow
from bushel.data.categories import Label
from bushel.data.columns import BytesColumn, Column, SparseRow, need_arrow
from bushel.data.encoding import Constraint, Narrowings, RecordEncoder
from bushel.data.roles import Account
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema
from bushel.data.tf_descriptions import tfds_files, why_no_form
from bushel.errors import BushelError, FileProblem, MissingName, SchemaMismatch, quantity
from bushel.parallel import Ahead, available_cores
from bushel.pixels.codecs import encode_pixels
from bushel.plugins import load_plugin, plugins
from bushel.reading import Dataset, Split, open
from bushel.records.manifest import has_manifest, read_manifest
from bushel.records.record_roles import account_of
from bushel.storage import AnyPath, as_path, check_own_folder, empty_folder, write_whole
from bushel.storage.file_kinds import kind_of_bytes, kind_of_name, suffixes_of
from bushel.storage.file_names import FileName, FileNames, fold_name, name_each

__all__ = [
    "FORMATS",
    "Content",
    "Exported",
    "ExportedPart",
    "Format",
    "export_dataset",
    "write_folder",
    "write_parquet",
    "write_webdataset",
]

Format: TypeAlias = Literal["parquet", "webdataset", "jsonl", "folder", "tfds"]


class ExportedPart(NamedTuple):
    """Some records of a split, which become one file, or files of one folder."""

    split: str
    split_name: FileName
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
        return f"{self.split_name}-{self.number:05d}-of-{self.of:05d}"


@dataclass(frozen=True)
class SampleNames:
    """The files of a folder with one per sample."""

    labels: dict[str, FileName]
    files: FileNames  # in folders that are called SPLIT, a zero byte, and the label


@dataclass(frozen=True)
class Content:
    """What records hold."""

    schema: Schema
    label: str
    classes: tuple[str, ...]
    file_names: dict[str, FileName]  # by feature
    why: str = ""  # that is the label
    samples_named: SampleNames | None = None  # of a folder with a file per sample

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


def write_parquet(
    folder: Path, part: ExportedPart, content: Content, blocks: Iterator[dict[str, Column]]
) -> Counter[str]:
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


def write_webdataset(
    folder: Path, part: ExportedPart, content: Content, blocks: Iterator[dict[str, Column]]
) -> Counter[str]:
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


def _write_tfds(
    folder: Path, part: ExportedPart, content: Content, blocks: Iterator[dict[str, Column]]
) -> Counter[str]:
    """A TFRecord file that is not compressed; `_write_description` tells TensorFlow Datasets about all of them."""
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


def _write_description(folder: Path, content: Content, records: Mapping[ExportedPart, int]) -> None:
    """The files that let TensorFlow Datasets read what `_write_tfds` wrote; `records` are those of each part."""
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
    key = re.sub(r"[^\w/-]", "_", whole).lstrip("/_") or f"{number:08d}"
    while fold_name(key) in used:
        key = f"{key}_{number:08d}"
    used.add(fold_name(key))
    return key


def _members(sample: Sample, content: Content, codes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    rest: dict[str, Any] = {}
    for name, value in sample.items():
        plain = content.file_names[name]
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


def _write_jsonl(
    folder: Path, part: ExportedPart, content: Content, blocks: Iterator[dict[str, Column]]
) -> Counter[str]:
    """A file of JSON lines; images are files next to it, and other bytes base64."""
    notes = Counter[str]()
    with write_whole(folder / f"{part.name}.jsonl") as file:
        for number, sample in enumerate(content.samples(blocks)):
            line = {
                name: _image_file(folder, part, number, content.file_names[name], value)
                if _is_image(content.schema.features.get(name), value)
                else _jsonable(value, notes)
                for name, value in sample.items()
            }
            file.write(msgspec.json.encode(line) + b"\n")
    return notes


def _image_file(folder: Path, part: ExportedPart, number: int, feature: FileName, data: bytes) -> str:
    path = f"{feature}/{part.name}/{number:06d}.{_suffix_of(data)}"
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


def write_folder(
    folder: Path, part: ExportedPart, content: Content, blocks: Iterator[dict[str, Column]]
) -> Counter[str]:
    """A file per sample, SPLIT/CLASS/NAME, as `build` and many others read it: images, or texts."""
    main = _main_feature(content)
    described = {main, "key", *(f"image/{name}" for name in _OF_IMAGES)}
    has_class = content.label in content.schema and content.schema[content.label].shape == ()
    described |= {content.label} if has_class else set()
    left_out = [name for name in content.schema if name not in described]
    notes = Counter({f"records without their {name}, which a folder does not hold": 0 for name in left_out})
    named = content.samples_named
    assert named is not None
    for number, sample in enumerate(content.samples(blocks), part.first):
        data, suffix = _as_file(sample[main])
        label = _label_text(sample, content)
        stem, own = _stem(_key_text(sample, number, part.split, label))
        suffix = f".{_right_suffix(own, suffix)}"
        file = named.files.name(stem, number, folder=f"{part.split}\0{label}", suffix=suffix)
        inside = [part.split_name, *([named.labels[label]] if label else [])]
        _write_new(folder.joinpath(*inside, file), data)
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


def _label_text(sample: Sample, content: Content) -> str:
    """The folder of a sample in that of its split; empty without a class."""
    has_class = content.label in content.schema and content.schema[content.label].shape == ()
    label = sample.get(content.label) if has_class else None
    return "" if label is None else str(label)


def _key_text(sample: Sample, number: int, split: str, label: str) -> str:
    """The key of a sample below the folders of its split and class, in one line; its number if there is none."""
    key = sample.get("key")
    if not isinstance(key, str) or not key:
        return f"{number:08d}"
    parts = key.strip("/").split("/")
    for folder in (split, label):
        parts = parts[1:] if len(parts) > 1 and parts[0] == folder else parts
    return "__".join(parts)


def _stem(name: str) -> tuple[str, str]:
    """A name without the suffix of a kind of files, and that suffix, if it has one."""
    stem, _, suffix = name.rpartition(".")
    is_known = kind_of_name(name) is not None and stem.strip(".") and suffix.isascii() and suffix.isalnum()
    return (stem, suffix) if is_known else (name, "")


def _right_suffix(own: str, right: str) -> str:
    """The suffix of a file: the one in its key, if that is one for what it holds."""
    kind = kind_of_name(f"x.{own}") if own else None
    return own if kind is not None and f".{right}" in kind.suffixes else right


def _name_samples(
    splits: Mapping[str, Split], parts: Sequence[ExportedPart], content: Content, on_fault: str
) -> SampleNames:
    """Look at all keys and labels first: only then is it known which names would meet."""
    texts: list[tuple[str, str]] = []
    labels: dict[str, None] = {}
    wanted = [name for name in ("key", content.label) if name in content.schema]
    for part in parts if wanted else ():
        blocks = _read_blocks(splits[part.split], part.first, part.end, on_fault, [], wanted)
        for number, sample in enumerate(content.samples(blocks), part.first):
            label = _label_text(sample, content)
            labels[label] = None
            texts.append((f"{part.split}\0{label}", _stem(_key_text(sample, number, part.split, label))[0]))
    named = name_each(sorted(filter(None, labels)))
    taken = [(f"{split}\0", _stem(name)[0]) for split in splits for name in named.values()]
    return SampleNames(named, FileNames(texts, taken=taken))


def _is_image(feature: Feature | None, value: Any) -> bool:
    return isinstance(value, bytes) and feature is not None and feature.encoding in IMAGE_ENCODINGS


def _suffix_of(data: bytes) -> str:
    kind = kind_of_bytes(data[:512])
    return kind.suffixes[0][1:] if kind is not None and kind.suffixes else "bin"


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that only one record becomes; a run that was stopped may have written the same one."""
    if path.exists() and path.read_bytes() != data:
        raise FileProblem(path, "two records would become this file", help=["Choose another format."])
    _write_once(path, data)


def _write_once(path: Path, data: bytes) -> None:
    """Write a file; the same one may have been written by a run that was stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.write_bytes(data)
    temporary.replace(path)


PartWriter: TypeAlias = Callable[[Path, ExportedPart, Content, Iterator[dict[str, Column]]], Counter[str]]
# A plug-in is such a function, too.
FORMATS: dict[str, PartWriter] = {
    "parquet": write_parquet,
    "webdataset": write_webdataset,
    "jsonl": _write_jsonl,
    "folder": write_folder,
    "tfds": _write_tfds,
}
EXPORT_NAME = "_export.json"  # written last: if it exists, the export is complete
_JOURNAL = "_exporting"
_MEMBERS = ("cls", "txt", "json", "npy", *(suffix[1:] for suffix in suffixes_of("images")))  # what else samples have
_PART_RECORDS = 10_000  # of a selection, which has no shards of its own
_BLOCK_BYTES = 16 << 20
_BLOCK_RECORDS = 4096


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    path: str
    format: str
    records: dict[str, int]  # by split
    resumed: int = 0  # parts that an earlier run had written
    skipped: int = 0  # damaged records
    notes: dict[str, int] = {}  # what the format cannot hold as it was, by kind
    schema: Schema | None = None
    classes: list[str] = []
    label: str = ""  # the feature that was taken for it, and why
    why: str = ""


def export_dataset(
    data: Dataset | Split | AnyPath | Any,
    out: AnyPath,
    *,
    format: Format | str = "parquet",
    label: str | None = None,
    overwrite: bool = False,
    on_fault: Literal["raise", "skip"] = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write a dataset, a split, or anything that `bushel.open` opens, in the format of others.

    >>> bushel.export_dataset("data", "tables", format="parquet")

    Each shard becomes one file (`train-00000-of-00008.parquet`), or files in a folder of its split. Labels are written
    by class name. An export that was stopped continues when it is started again. `label` is the feature whose values
    are the classes; without it, the dataset says it, or a usual name does.
    """
    _writer_of(format)
    if format == "parquet":
        need_arrow("export --format parquet")
    splits = _splits(data)
    folder = as_path(out)
    account = _account(splits[0], label)
    chosen = account.label or splits[0].label
    classes = tuple(splits[0].classes) if chosen == splits[0].label else ()
    content = Content(splits[0].schema, chosen, classes, _name_features(splits[0].schema), account.why)
    if format == "tfds" and (why := why_no_form(content.schema)) is not None:
        raise BushelError(f"TensorFlow Datasets has no form for these records: {why}")
    split_names = name_each((split.name for split in splits), taken=(EXPORT_NAME, _JOURNAL))
    parts = [part for split in splits for part in _parts(split, split_names[split.name])]
    by_name = {split.name: split for split in splits}
    if format == "folder":
        _main_feature(content)  # there must be one, before all keys are read
        content = replace(content, samples_named=_name_samples(by_name, parts, content, on_fault))
    journal = _begin(folder, _identity(splits, format, chosen), overwrite=overwrite)
    export = _Export(folder, journal, format, by_name, content, on_fault)
    return export.run(parts, progress)


def _writer_of(format: str) -> PartWriter:
    """What writes a part in a format of bushel's, or of another package."""
    found = FORMATS.get(format) or load_plugin("exports", format)
    if found is None:
        raise ValueError(f"format must be one of {', '.join([*FORMATS, *plugins('exports')])}; got {format!r}")
    return cast("PartWriter", found)


def _splits(data: Any) -> list[Split]:
    if isinstance(data, Split):
        return [data]
    opened = data if isinstance(data, Dataset) else open(data)
    found = [split for split in opened.splits.values() if len(split)]
    if not found:
        raise BushelError(f"{opened.where}: there are no records to export")
    return found


def _name_features(schema: Schema) -> dict[str, FileName]:
    """Names for the files of features. A dot ends the name of a feature in a tar."""
    plain = {name: re.sub(r"[^\w-]", "_", name) for name in schema}
    names = FileNames((("", text) for text in plain.values()), taken=[("", word) for word in _MEMBERS])
    return {name: names.name(text, number) for number, (name, text) in enumerate(plain.items())}


def _parts(split: Split, split_name: FileName) -> list[ExportedPart]:
    """The shards of a split, or pieces of a selection."""
    whole = split.rows is None and len(split.shards.shards) > 0
    edges = split.shards.first.tolist() if whole else [*range(0, len(split), _PART_RECORDS), len(split)]
    pairs = [(begin, end) for begin, end in pairwise(edges) if end > begin]
    return [ExportedPart(split.name, split_name, number, len(pairs), *pair) for number, pair in enumerate(pairs)]


def _account(split: Split, label: str | None) -> Account:
    """What the records hold: which feature is the label, above all."""
    if label is not None and label not in split.schema:
        raise MissingName("feature", label, split.schema, where=split.paths[0])
    folder = split.paths[0].parent
    manifest = read_manifest(folder) if has_manifest(folder) else None
    account = account_of(split.paths, split.schema, manifest, label=label)
    if account.label is None and split.label in split.schema:  # raw data, whose source says it
        return account_of(split.paths, split.schema, manifest, declared=split.label)
    return account


def _identity(splits: Sequence[Split], format: str, label: str) -> str:
    """What must not change between the runs of one export."""
    digest = hashlib.blake2b(f"{format}\0{label}".encode(), digest_size=16)
    for split in splits:
        digest.update(f"\0{split.name}\0{len(split)}\0{sorted(split.schema)}".encode())
        for path in split.paths:
            status = path.stat() if path.exists() else None
            digest.update(f"\0{path.name}\0{status.st_size if status else 0}".encode())
        if split.rows is not None:
            digest.update(np.ascontiguousarray(split.rows).data)
    return digest.hexdigest()


def _begin(folder: Path, identity: str, *, overwrite: bool) -> Path:
    """The journal of the export, new or of an earlier run of the same one."""
    journal = folder / _JOURNAL
    if folder.exists() and not folder.is_dir():
        raise FileProblem(folder, "is a file, not a folder")
    check_own_folder(journal)
    is_same = (journal / "identity").is_file() and (journal / "identity").read_text() == identity
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    is_bare = names <= {_JOURNAL} and not (journal / "identity").exists()  # it was killed before it began
    if {EXPORT_NAME, _JOURNAL} <= names and not is_same:  # it was killed when it was complete
        shutil.rmtree(journal)
    if not is_same and not is_bare:
        if not overwrite:
            raise FileProblem(folder, "is not empty", help=["Choose another folder, or replace it: --overwrite"])
        empty_folder(folder.resolve())
    elif is_same:
        check_own_folder(folder)  # what it holds is written over
    journal.mkdir(parents=True, exist_ok=True)
    with write_whole(journal / "identity") as file:
        file.write(identity.encode())
    return journal


@dataclass(frozen=True)
class _Export:
    folder: Path
    journal: Path
    format: str
    splits: dict[str, Split]
    content: Content
    on_fault: str

    def run(self, parts: Sequence[ExportedPart], progress: Callable[[int, int], None] | None) -> Exported:
        done = {part for part in parts if self._mark(part).is_file()}
        left = [part for part in parts if part not in done]
        total, written = sum(part.records for part in parts), sum(part.records for part in done)
        cores = available_cores()
        with Ahead(self._write, left, threads=cores, ahead=cores) as parts_written:  # an error waits for the others
            for part in parts_written:
                written += part.records
                if progress is not None:
                    progress(written, total)
        return self._finish(parts, len(done))

    def _mark(self, part: ExportedPart) -> Path:
        return self.journal / f"{part.name}.json"

    def _write(self, part: ExportedPart) -> ExportedPart:
        skipped: list[int] = []
        notes = _writer_of(self.format)(self.folder, part, self.content, self._blocks(part, skipped))
        mark = {"notes": dict(notes), "skipped": len(skipped)}
        with write_whole(self._mark(part)) as file:
            file.write(msgspec.json.encode(mark))
        return part

    def _blocks(self, part: ExportedPart, skipped: list[int]) -> Iterator[dict[str, Column]]:
        return _read_blocks(self.splits[part.split], part.first, part.end, self.on_fault, skipped)

    def _finish(self, parts: Sequence[ExportedPart], resumed: int) -> Exported:
        notes, skipped, records = Counter[str](), 0, Counter[str]()
        written: dict[ExportedPart, int] = {}
        for part in parts:
            mark = msgspec.json.decode(self._mark(part).read_bytes())
            notes.update(mark["notes"])
            skipped += mark["skipped"]
            written[part] = part.records - mark["skipped"]
            records[part.split] += written[part]
        if self.format == "tfds":
            _write_description(self.folder, self.content, written)
        exported = Exported(
            path=str(self.folder),
            format=self.format,
            records=dict(records),
            resumed=resumed,
            skipped=skipped,
            notes=dict(notes),
            schema=self.content.schema,
            classes=list(self.content.classes),
            label=self.content.label if self.content.label in self.content.schema else "",
            why=self.content.why,
        )
        stated = msgspec.structs.replace(exported, resumed=0)  # however often it was stopped, the bytes are the same
        with write_whole(self.folder / EXPORT_NAME) as file:
            file.write(msgspec.json.format(msgspec.json.encode(stated), indent=2))
        shutil.rmtree(self.journal)
        return exported


def _read_blocks(
    split: Split, first: int, end: int, on_fault: str, skipped: list[int], columns: Sequence[str] | None = None
) -> Iterator[dict[str, Column]]:
    """Some records of a split, a few MiB at a time."""
    size = split.shards.record_bytes()
    step = max(1, min(_BLOCK_RECORDS, int(_BLOCK_BYTES / size))) if size and size != float("inf") else 256
    rows: NDArray[np.int64] = np.arange(first, end) if split.rows is None else split.rows[first:end]
    for at in range(0, len(rows), step):
        some = rows[at : at + step]
        if on_fault == "skip":
            usable = split.usable(some)
            skipped += np.setdiff1d(some, usable).tolist()
            some = usable
        if len(some):
            yield split.read(some, columns)


def summary_of(exported: Exported) -> list[str]:
    """What was exported, as lines for people."""
    lines = [f"{name}: {quantity(count, 'record')}" for name, count in exported.records.items()]
    if exported.label:
        lines.append(f"label: {exported.label!r} ({exported.why}; --label COL names another)")
    lines += [f"note: {count:,} {what}" for what, count in exported.notes.items()]
    return lines + ([f"{quantity(exported.skipped, 'damaged record')} left out"] if exported.skipped else [])
