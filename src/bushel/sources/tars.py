"""Tar files in WebDataset's layout: files with the same name up to the first dot are one sample."""

from __future__ import annotations

import io
import math
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.samples import DEEPEST, feature_of, is_too_deep, to_columns
from bushel.data.schema import Feature, Schema
from bushel.data.splits import splits_in_names
from bushel.errors import FileProblem, SchemaMismatch, readable_size
from bushel.records.files import MAX_RECORD
from bushel.sources.image_checks import Allow, HowVerified, ImageCheck, KeepBytes, allowed
from bushel.sources.in_memory import Census, misfit
from bushel.sources.protocol import (
    Block,
    Listing,
    Reads,
    Refused,
    Source,
    as_given,
    check_values,
    fingerprint_of,
    recipe_table,
)
from bushel.storage import AnyPath, as_path, list_files, local_copy
from bushel.storage.file_kinds import CODECS, suffixes_of

__all__ = ["TarSource", "webdataset"]

_IMAGES = suffixes_of("images")
_NUMBERS = ("cls", "cls2", "index", "id")
_TEXTS = ("txt", "text", "transcript", "caption")
_LEFT_OUT = "values in json that no feature can hold"
_BLOCK_ROWS = 128
_BLOCK_BYTES = 16 << 20


def webdataset(
    paths: AnyPath | Iterable[AnyPath],
    *,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> TarSource:
    """Take samples from the tar files of a WebDataset, plain or compressed, one partition each.

    `001.jpg`, `001.cls` and `001.json` make one sample with the key `001`: images become `image`, `cls` the `label`,
    `txt` the `text`, `npy` an array, the values in `json` features with their own names, anything else bytes named
    after its extension. Images are checked as `images` does.
    """
    arguments = locals()
    check_values(webdataset, arguments)
    given = as_given(paths)
    files = tuple(str(path) for path in list_files(given))
    check = ImageCheck(verify, keep_bytes, allowed(allow))
    recipe = recipe_table(webdataset, given, arguments | {"allow": check.allow}, always=("verify",))
    source = TarSource(files, recipe, check)
    if not any(len(keys) for keys in source.keys):
        raise FileProblem(files[0], "there are no samples in it")
    return source


class _Member(dict[str, Any]):
    """A sample being read: values by feature, with images kept apart; `why` says what is wrong with it, if anything."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.images: dict[str, bytes] = {}
        self.size = 0
        self.left_out = 0  # values in json that no feature can hold
        self.why = ""


@dataclass(frozen=True)
class TarSource(Source):
    """Samples from tar files; reads in sequence, a file at a time."""

    files: tuple[str, ...]
    recipe: dict[str, Any]
    check: ImageCheck
    reads: Reads = "sequence"

    @cached_property
    def survey(self) -> tuple[dict[str, Feature], tuple[str, ...], tuple[BytesColumn, ...]]:
        """Features, names of images, and keys by file; images are skipped."""
        census = Census()
        images: dict[str, None] = {}
        keys = []
        for file in self.files:
            found = []
            for sample in _samples(as_path(file), with_images=False):
                census.add(sample)
                images |= dict.fromkeys(sample.images)
                found.append(sample.key)
            keys.append(found)
        if len({key for found in keys for key in found}) < sum(len(found) for found in keys):
            # Shards that each count from 0 have the same keys: the shard's name distinguishes them.
            keys = [[f"{Path(file).name}/{key}" for key in found] for file, found in zip(self.files, keys, strict=True)]
        return census.features(), tuple(images), tuple(BytesColumn.of(found) for found in keys)

    @property
    def keys(self) -> tuple[BytesColumn, ...]:
        """Keys by file."""
        return self.survey[2]

    @property
    def split(self) -> str | None:
        """`split`, if samples have such a feature, or if files have splits."""
        return "split" if "split" in self.survey[0] or splits_in_names(self.files) else None

    def partitions(self) -> int:
        """One per file."""
        return len(self.files)

    def schema(self) -> Schema:
        """The features that fit most samples, their images and their key."""
        features, images, _ = self.survey
        found: dict[str, Feature] = {}
        for name in images:
            found |= self.check.features(name)
        return Schema(features=found | features | {"key": Feature(dtype="str")})

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns, without reading images."""
        features = self.survey[0]
        wanted = {
            name: Feature(dtype=features[name].dtype, shape=features[name].shape, required=False)
            for name in columns
            if name in features
        }
        found: dict[str, Column] = {"key": self.keys[partition]} if "key" in columns else {}
        if "split" in columns and "split" not in features:
            found["split"] = BytesColumn.of([splits_in_names(self.files)[partition]] * len(self.keys[partition]))
        if wanted:
            rows = []
            for sample in _samples(as_path(self.files[partition]), with_images=False):
                values = {name: sample[name] for name in wanted if name in sample}
                rows.append({name: value for name, value in values.items() if not misfit({name: value}, wanted)})
            found |= to_columns(rows, wanted)
        return Listing(self.keys[partition], found)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All samples of a file, in order."""
        if rows is not None:
            raise ValueError("rows must be None: tar files are read in sequence")
        block: list[_Member] = []
        first = size = 0
        for sample in _samples(as_path(self.files[partition]), with_images=True):
            block.append(sample)
            size += sample.size
            if len(block) == _BLOCK_ROWS or size > _BLOCK_BYTES:
                yield self._block(partition, block, first)
                first, block, size = first + len(block), [], 0
        if block:
            yield self._block(partition, block, first)

    def _block(self, partition: int, samples: Sequence[_Member], first: int) -> Block:
        features, images, _ = self.survey
        bad = {row: ("schema", why) for row, sample in enumerate(samples) if (why := self._why(sample))}
        columns: dict[str, Column] = {}
        counted: Counter[str] = Counter()
        decoded: list[tuple[list[int], dict[str, Column]]] = []
        for name in images:
            usable = [row for row in range(len(samples)) if row not in bad]
            checked = self.check.check_all(BytesColumn.of([samples[row].images[name] for row in usable]), name)
            bad |= {usable[row]: ("decode", f"{name}: {reason}") for row, reason in checked.bad.items()}
            decoded.append(([usable[row] for row in checked.rows], checked.columns))
            counted.update(checked.counted)
        kept = [row for row in range(len(samples)) if row not in bad]
        for rows, found in decoded:
            places = np.searchsorted(rows, kept)
            columns |= {name: take(column, places) for name, column in found.items()}
        columns |= to_columns([samples[row] for row in kept], features)
        numbers = np.array(kept, np.int64) + first
        columns["key"] = self.keys[partition].take(numbers)
        counted.update({_LEFT_OUT: sum(samples[row].left_out for row in kept)})
        refused = [Refused(first + row, *why) for row, why in sorted(bad.items())]
        return Block(numbers, columns, refused, {what: count for what, count in counted.items() if count})

    def _why(self, sample: _Member) -> str:
        features, images, _ = self.survey
        missing = [name for name in images if name not in sample.images]
        return sample.why or misfit(sample, features) or (f"{missing[0]}: there is no image" if missing else "")

    def locate(self, partition: int, row: int) -> str:
        """The file, and the sample's key in it."""
        return f"{self.files[partition]}: {self.keys[partition][row].decode()}"

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options."""
        return fingerprint_of(self.files, self.describe())

    def describe(self) -> dict[str, Any]:
        """The paths and options."""
        return dict(self.recipe)


def _samples(path: Path, *, with_images: bool) -> Iterator[_Member]:
    sample: _Member | None = None
    for member in _files_in(path):
        folder, _, name = member.name.rpartition("/")
        if name.startswith((".", "_")):
            continue
        stem, _, extension = name.partition(".")
        key = f"{folder}/{stem}".removeprefix("./").lstrip("/")
        if sample is None or sample.key != key:
            if sample is not None:
                yield sample
            sample = _Member(key)
        is_image = f".{extension}".lower().endswith(_IMAGES)
        if member.size > MAX_RECORD:
            sample.why = f"{member.name}: {readable_size(member.size)} is more than a record holds"
            continue
        data = member.read() if not is_image or with_images else b""
        sample.size += member.size
        _add(sample, extension, data, is_image=is_image)
    if sample is not None:
        yield sample


class _File(NamedTuple):
    """A file in an archive; it is read before the next one is asked for, or not at all."""

    name: str
    size: int
    read: Callable[[], bytes]


def _files_in(path: Path) -> Iterator[_File]:
    """The files of an archive, in order. Python's own module reads compressed ones, at half the rate."""
    try:
        path = local_copy(path)
        with path.open("rb") as file:
            head = file.read(2)
            if not any(head == codec.magic for codec in CODECS.values()):
                file.seek(0)
                yield from _plain_files(file)
                return
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.isfile():
                    yield _File(member.name, member.size, partial(_extracted, archive, member))
    except (tarfile.TarError, EOFError) as error:
        raise FileProblem(path, f"cannot be read as a tar archive: {error}") from None


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member)
    return opened.read() if opened else b""


_BLOCK = 512
_LONG_NAME, _OWN, _FOR_ALL = b"L", b"x", b"g"  # headers about the next member, or about all


def _plain_files(file: IO[bytes]) -> Iterator[_File]:
    """The files of an archive that is not compressed: a header of 512 bytes each, and the data in whole blocks."""
    stated: dict[str, str] = {}
    at, end = 0, file.seek(0, io.SEEK_END)
    file.seek(0)
    while (header := file.read(_BLOCK)) and header.count(0) < _BLOCK:
        kind, size = header[156:157], int(stated.get("size", _header_size(header, at)))
        if at + _BLOCK + size > end:
            raise tarfile.ReadError("unexpected end of data")
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
        if kind in (_LONG_NAME, _OWN):
            stated |= _said(kind, _whole(file, min(size, MAX_RECORD)))
        elif kind in b"07\0":
            yield _File(stated.get("path") or _name_in(header), size, partial(_whole, file, size))
            stated = {}
        elif kind == b"S":
            raise tarfile.ReadError("it holds a sparse file")
        elif kind != _FOR_ALL:
            stated = {}
        file.seek(at)


def _header_size(header: bytes, at: int) -> int:
    """The size of a member, if the header is intact."""
    if len(header) < _BLOCK:
        raise tarfile.ReadError("unexpected end of data")
    try:
        checksum = int(header[148:156].rstrip(b"\0 ") or b"0", 8)
        size = header[124:136]
        found = int.from_bytes(size[1:]) if size[0] == 0x80 else int(size.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        checksum, found = -1, 0
    if checksum != sum(header) - sum(header[148:156]) + 8 * 0x20:
        raise tarfile.ReadError("invalid header" if at == 0 else f"invalid header at byte {at}")
    return found


def _name_in(header: bytes) -> str:
    name, prefix = (part.partition(b"\0")[0] for part in (header[:100], header[345:500]))
    is_posix = header[257:263] == b"ustar\0"
    return (prefix + b"/" + name if prefix and is_posix else name).decode("utf-8", "surrogateescape")


def _said(kind: bytes, data: bytes) -> dict[str, str]:
    """What a header says about the member after it: its name, or lines of a length, a name and a value."""
    if kind == _LONG_NAME:
        return {"path": data.partition(b"\0")[0].decode("utf-8", "surrogateescape")}
    found: dict[str, str] = {}
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(data):
            raise tarfile.ReadError("invalid header")
        name, _, value = rest[: int(length) - len(length) - 1].partition(b"=")
        found[name.decode("utf-8", "replace")] = value.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        data = data[int(length) :]
    if not found.get("size", "0").isdigit():
        raise tarfile.ReadError("invalid header")
    return found


def _whole(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise tarfile.ReadError("unexpected end of data")
    return data


def _add(sample: _Member, extension: str, data: bytes, *, is_image: bool) -> None:
    """Put one file of a sample where it belongs."""
    name, _, kind = extension.lower().rpartition(".")
    try:
        if is_image:
            sample.images[name or "image"] = data
        elif kind == "json":
            values = msgspec.json.decode(data)
            if is_too_deep(values):
                raise RecursionError
            _add_json(sample, name or "json", values)
        elif kind == "npy":
            sample[name or "npy"] = _array_in(data)
        elif kind in _NUMBERS:
            sample["label" if kind == "cls" else kind] = int(data)
        elif kind in _TEXTS:
            sample[name or "text"] = data.decode()
        else:
            sample[extension.lower() or "data"] = data
    except RecursionError:
        sample.why = f"{extension}: it is nested deeper than {DEEPEST} levels"
    except (ValueError, UnicodeDecodeError, msgspec.DecodeError, SchemaMismatch) as error:
        sample.why = f"{extension}: {str(error).splitlines()[0]}"


def _array_in(data: bytes) -> NDArray[Any]:
    """The array of an .npy file, if all of it is there: NumPy takes memory for what the header says."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize > len(data):
        raise ValueError(f"it says that it has {math.prod(shape):,} values, and it has {len(data):,} bytes")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def _add_json(sample: _Member, name: str, value: Any) -> None:
    """The values of an object by name; those of a nested object are named `outer/inner`."""
    if isinstance(value, dict):
        for inner, inner_value in value.items():
            _add_json(sample, inner if name == "json" else f"{name}/{inner}", inner_value)
        return
    try:
        if value is not None:
            feature_of(value, name=name)
    except SchemaMismatch:
        sample.left_out += 1
        return
    sample[name] = value
