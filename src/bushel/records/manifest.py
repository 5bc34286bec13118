"""The manifest: `dataset.json`, written last. If it exists, the dataset is complete. FORMAT.md lists every field.

A folder of TensorFlow Datasets is read as if it had one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from bushel.data.categories import Label
from bushel.data.schema import Schema
from bushel.data.tf_descriptions import read_described, tfds_files, why_no_form
from bushel.errors import BushelWarning, FileProblem, FormatError, MissingName, printable, quantity
from bushel.records.files import leave_out_empty
from bushel.storage import (
    TFDS_FEATURES,
    TFDS_INFO,
    AnyPath,
    as_path,
    finish_move,
    list_files,
    natural_order,
    read_if_there,
    shard_paths,
    sizes_in,
    status_of,
    tfds_folder,
    why_not_inside,
    write_whole,
)
from bushel.storage.file_kinds import Compression, has_record_name
from bushel.storage.file_names import is_plain_name

FORMAT = 1
MANIFEST_NAME = "dataset.json"
ARTIFACTS_NAME = "_artifacts"
SUCCESSOR_NAME = "_new"  # the folder below a dataset in a store where the one that replaces it grows


class ShardEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a split."""

    path: str  # relative to the dataset
    records: int
    bytes: int
    sha256: str  # of the file
    digest: str  # SHA-256 of the uncompressed records, including framing
    refused: int = 0  # samples planned for it that are in quarantine
    generation: int = 0


class SplitEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named part of the dataset."""

    shards: list[ShardEntry]
    label_counts: dict[str, int] = {}  # by class name, or by the integer as text

    @property
    def records(self) -> int:
        """The number of records in all shards."""
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.bytes for shard in self.shards)


class Balanced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done to the classes of the train split, after splitting."""

    method: str
    ratio: float  # of the smallest class to the largest, at least
    before: dict[str, int]  # samples by class
    after: dict[str, int]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a reader needs to know about a dataset."""

    splits: dict[str, SplitEntry]
    schema: Schema
    raw: Schema | None = None  # the schema of the source, before labels were encoded and transforms ran, if it differs
    label: Label | None = None
    compression: Compression | None = None
    balance: Balanced | None = None
    statistics: dict[str, dict[str, Any]] = {}  # what transforms learned, by their id
    recipe: dict[str, Any] = {}
    seed: int = 0
    refused: int = 0
    counted: dict[str, int] = {}  # what sources left out or changed, by kind
    narrowed: dict[str, float] = {}  # by feature, the largest difference caused by float32
    appended: list[dict[str, Any]] = []  # the sources of later generations
    versions: dict[str, str] = {}  # of bushel and of each codec
    generation: int = 0
    root: str = ""  # the folder below that holds all the rest, while a store copies it from there
    format: int = FORMAT

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}: {split.records:,}" for name, split in self.splits.items())
        return f"Manifest({splits} records; {len(self.schema.features)} features)"

    def split(self, name: str, *, where: AnyPath = MANIFEST_NAME) -> SplitEntry:
        """One split by name."""
        if name not in self.splits:
            raise MissingName("split", name, self.splits, where=where)
        return self.splits[name]


def has_manifest(folder: AnyPath) -> bool:
    """Whether a folder is a finished dataset, of bushel or of TensorFlow Datasets.

    If a build was killed while it replaced one, that is finished first.
    """
    folder = as_path(folder)
    return (folder / MANIFEST_NAME).is_file() or finish_move(folder) or tfds_folder(folder) is not None


def read_manifest(folder: AnyPath) -> Manifest:
    """Read the manifest of a dataset; refuse a format that this bushel does not know."""
    if (manifest := _read(as_path(folder))) is None:
        help = ["Run its build again."]
        raise FileProblem(folder, f"there is no {MANIFEST_NAME}, so this is not a finished dataset", help=help)
    return manifest


def find_manifest(folder: AnyPath) -> Manifest | None:
    """The manifest of a finished dataset; None for any other path."""
    finish_move(as_path(folder))
    return _read(as_path(folder))


def _read(folder: Path) -> Manifest | None:
    path = folder / MANIFEST_NAME
    if (text := _text_of(folder)) is None:
        described = tfds_folder(folder)
        return None if described is None else _of_tfds(folder, described)
    try:
        version = msgspec.json.decode(text, type=_Version).format
        if version != FORMAT:
            raise FormatError(
                path,
                f"dataset of format {version}; this bushel reads format {FORMAT}",
                help=["Install the bushel that wrote it, or a later one."],
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(path, f"not a manifest: {error}", help=[_without(path)]) from None
    if manifest.root:
        manifest = _rooted(manifest, path)
    _check_shards(manifest, path)
    return manifest


def _text_of(folder: Path) -> bytes | None:
    """The bytes of a manifest, which is in the folder itself: a link out of it is refused."""
    if (why := why_not_inside(folder, MANIFEST_NAME)) is not None:
        raise FormatError(folder / MANIFEST_NAME, why)
    return read_if_there(folder / MANIFEST_NAME)


def _rooted(manifest: Manifest, path: Path) -> Manifest:
    """A manifest whose shards are in the folder below that it names."""
    if manifest.root != SUCCESSOR_NAME:
        problem = f"root must be {SUCCESSOR_NAME!r}, or left out; got {manifest.root!r}"
        raise FormatError(path, problem, help=[_without(path)])

    def move(shard: ShardEntry) -> ShardEntry:
        is_odd = shard.path.startswith("/")  # which is refused as it is
        return shard if is_odd else msgspec.structs.replace(shard, path=f"{manifest.root}/{shard.path}")

    splits = {
        name: msgspec.structs.replace(split, shards=[move(shard) for shard in split.shards])
        for name, split in manifest.splits.items()
    }
    return msgspec.structs.replace(manifest, splits=splits)


def artifacts_folder(folder: AnyPath, manifest: Manifest) -> Path:
    """Where the files are that belong to what transforms learned."""
    return as_path(folder) / manifest.root / ARTIFACTS_NAME


def _check_shards(manifest: Manifest, path: Path) -> None:
    if not manifest.splits:
        raise FormatError(path, "splits: there is none, so there are no records", help=[_without(path)])
    for name, split in manifest.splits.items():
        if not is_plain_name(name):  # it becomes part of the names of files
            problem = f"splits: {printable(name)!r} is not the name of a split: it cannot be the name of a file"
            raise FormatError(path, problem, help=[_without(path)])
        for number, shard in enumerate(split.shards):
            if (why := _why_not(shard, path.parent)) is not None:
                problem = f"splits.{printable(name)}.shards[{number}]: {why}"
                raise FormatError(path, problem, help=[_without(path)])


def _of_tfds(folder: Path, described: Path) -> Manifest:
    """The manifest that the files of TensorFlow Datasets amount to. Shards have the sizes that they are found with."""
    stated = read_described(described)
    if stated.unknown:
        said = f"{', '.join(map(printable, stated.unknown[:5]))}: made by custom code, so it is left out"
        warnings.warn(f"{described / TFDS_FEATURES}: {said}", BushelWarning, stacklevel=3)
    sizes = {name: size for name, size in sizes_in(described).items() if not name.startswith((".", "_"))}
    below = described.relative_to(folder).as_posix() + "/" if described != folder else ""
    splits = {
        name: SplitEntry(
            shards=[
                ShardEntry(path=below + shard, records=records, bytes=sizes.get(shard, 0), sha256="", digest="")
                for shard, records in shards.items()
            ]
        )
        for name, shards in stated.splits.items()
    }
    manifest = Manifest(splits=splits, schema=stated.schema, label=stated.label)
    _check_shards(manifest, described / TFDS_INFO if not below else folder / TFDS_INFO)
    return manifest


def why_not_described(manifest: Manifest) -> str | None:
    """Why TensorFlow Datasets cannot read the shards of a dataset, in words; None if it can."""
    if manifest.compression is not None:
        return f"shards are compressed with {manifest.compression}"
    if manifest.generation:
        return "samples were appended, and its names of files know no generations"
    if odd := next((name for name in manifest.splits if "." in name), None):
        return f"the name of the split {odd!r} has a dot"
    return why_no_form(manifest.schema)


def described_files(manifest: Manifest) -> dict[str, bytes]:
    """The files that let TensorFlow Datasets read a dataset, by name; none if it cannot."""
    if why_not_described(manifest) is not None:
        return {}
    shards = {name: [(s.records, s.bytes) for s in split.shards] for name, split in manifest.splits.items()}
    return dict(tfds_files(manifest.schema, manifest.label, {name: files for name, files in shards.items() if files}))


def record_files(path: AnyPath) -> list[Path]:
    """The files at a path; of a dataset, all that are named like records and are in it: notes may lie beside them."""
    if not has_manifest(path):
        return list_files(path)
    read_manifest(path)  # which refuses shards that are elsewhere, before one of them is opened
    folder = as_path(path)
    files = [file for file in list_files(path) if has_record_name(file.name)]
    for file in files:
        if (why := why_not_inside(folder, str(file.relative_to(folder)))) is not None:
            raise FileProblem(file, why)
    return files


def list_shards(paths: AnyPath | Iterable[AnyPath]) -> tuple[list[Path], list[FileProblem]]:
    """The files that paths name, of a dataset its shards; and how those differ from its manifest."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not any(map(has_manifest, given)):
        return leave_out_empty(list_files(given)), []
    files: list[Path] = []
    problems: list[FileProblem] = []
    for path in given:
        found = _shards_in(as_path(path), problems) if has_manifest(path) else list_files(path)
        files.extend(found)
    return files, problems


def _shards_in(folder: Path, problems: list[FileProblem]) -> list[Path]:
    shards = {shard.path: shard for split in read_manifest(folder).splits.values() for shard in split.shards}
    there = []
    for path, shard in zip(shard_paths(folder, shards), shards.values(), strict=True):
        if not path.is_file():
            problems.append(FileProblem(path, "there is no such file, and the manifest names it"))
            continue
        there.append(path)
        if (size := status_of(path).size) != shard.bytes:
            problems.append(FileProblem(path, other_size(size, shard), help=[repair_help(path)]))
    if not there:
        raise FileProblem(folder, "there are no files in this folder") if not problems else problems[0]
    return sorted(there, key=natural_order)


def other_size(size: int, shard: ShardEntry) -> str:
    """How the size of a file differs from what the manifest says."""
    return f"has {quantity(size, 'byte')}, and the manifest says {shard.bytes:,}"


def repair_help(path: Path) -> str:
    """What to do about a shard that is not the one in the manifest."""
    return f"To keep every intact record of it: bushel repair {path} OUT"


def _without(path: Path) -> str:
    return f"To read the shards without it, name them: {path.parent / '*.tfrecord*'}"


def _why_not(shard: ShardEntry, folder: Path) -> str | None:
    """Why a shard cannot be one of a dataset in this folder; a manifest may come from anybody."""
    parts = PurePosixPath(shard.path).parts
    is_name = parts and max(map(len, parts)) < 256 and shard.path.isprintable()
    if not is_name or "\\" in shard.path:
        return f"path must be the name of a file, got {shard.path!r}"
    if shard.path.startswith("/") or ".." in parts or "://" in shard.path:
        return f"path must be in the folder of the dataset, got {shard.path!r}"
    if (why := why_not_inside(folder, shard.path)) is not None:
        return f"path {shard.path!r} {why} of the dataset"
    if not 0 <= shard.bytes < 1 << 62:
        return f"bytes must be the size of a file, got {shard.bytes}"
    if not 0 <= shard.records < 1 << 48:
        return f"records must be a count, got {shard.records}"
    return None


class _Version(msgspec.Struct):
    format: int


def write_manifest(folder: AnyPath, manifest: Manifest) -> None:
    """Publish a dataset: whole, or not at all."""
    with write_whole(as_path(folder) / MANIFEST_NAME) as file:
        file.write(encode_manifest(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of `dataset.json`."""
    fields = {"format": FORMAT, **msgspec.to_builtins(manifest)}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"
