"""Files in folders, listed into arrays instead of one object per file; classes and splits from folder names."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import (
    BytesColumn,
    Column,
    Pile,
    is_spooled,
    load_columns,
    roomy,
    spool_columns,
    steps,
    take,
    with_missing,
)
from bushel.data.splits import split_of_name
from bushel.parallel import Ahead, Helpers, do_all
from bushel.sources.protocol import Listing, Source, fingerprint_of
from bushel.storage import MOST_VISITS, FolderPart, Scanner, as_path, scanner_of, too_many_links
from bushel.storage.file_kinds import KINDS, suffixes_of

__all__ = [
    "ClassFolder",
    "FileList",
    "FolderSource",
    "classes_of",
    "files_of",
    "images_or_bare",
    "is_file_of",
    "told_by_folders",
    "walk",
    "walk_or_take",
]

ClassFolder: TypeAlias = Literal["first", "last", "path", "none"]

_OF_SYSTEMS = {b"thumbs.db", b"desktop.ini", b"ehthumbs.db", b"__macosx", b"$recycle.bin", b"icon\r"}
# For a file name in lower case: what kind of file it is if it is left out, otherwise None.
LeaveOut: TypeAlias = Callable[[bytes], str | None]


_SUFFIXES = {
    source: tuple(suffix.encode() for suffix in suffixes_of(source)) for source in {kind.source for kind in KINDS}
}
_UNREAD_IMAGES = next(
    tuple(suffix.encode() for suffix in kind.suffixes) for kind in KINDS if kind.name == "other image"
)
_TABLES = tuple(suffix.encode() for suffix in suffixes_of("table"))
_CALLED = {"video": "videos", "audio": "sound"}  # what a source takes, if it is not called that itself


def files_of(source: str) -> LeaveOut:
    """Leave out all files except those of a source, such as images."""
    return partial(_left_out, source)


def is_file_of(source: str, name: str) -> bool:
    """Whether a file belongs to a source, by its name."""
    return _left_out(source, os.fsencode(name)) is None


def _left_out(source: str, name: bytes) -> str | None:
    lower = name.lower()
    if lower.endswith(_SUFFIXES[source]) or (source == "text" and b"." not in name):
        return None
    is_unread = source == "images" and lower.endswith(_UNREAD_IMAGES)
    return "images in formats that are not read" if is_unread else f"files that are not {_CALLED.get(source, source)}"


def images_or_bare(name: bytes) -> str | None:
    """Leave out all files except images and those without a suffix, whose kind is found from their bytes."""
    return None if b"." not in name else _left_out("images", name)


@dataclass(frozen=True)
class FileList:
    """Files below a folder, in the order of their names, as columns."""

    paths: BytesColumn  # relative to the folder, with "/"
    folder: NDArray[np.int32]  # the number of the folder that each file is in
    sizes: NDArray[np.int64]
    times: NDArray[np.int64]
    folders: BytesColumn  # also relative; the first is "", the folder itself
    counted: dict[str, int]
    tables: tuple[str, ...] = ()  # names of tables right in the folder, which may hold labels

    def __len__(self) -> int:
        return len(self.paths)

    def but(self, rows: list[int], what: str) -> FileList:
        """The same list without some files, which are counted."""
        kept = np.setdiff1d(np.arange(len(self)), rows)
        counted = {**self.counted, what: self.counted.get(what, 0) + len(rows)}
        own = (self.paths.take(kept), self.folder[kept], self.sizes[kept], self.times[kept])
        return FileList(*own, self.folders, counted, self.tables)

    def columns(self) -> dict[str, Column]:
        """The columns that other processes map."""
        return {
            "paths": self.paths,
            "folder": self.folder,
            "sizes": self.sizes,
            "times": self.times,
            "folders": self.folders,
        }


class _Branch(NamedTuple):
    """A folder to walk: its path below the root, the folders that it is in, and which part of it, if not all."""

    relative: bytes
    above: tuple[Any, ...]
    part: FolderPart | None = None


class _Walk:
    """Files found so far, as columns: there may be many millions."""

    def __init__(self, scanner: Scanner, leave_out: LeaveOut) -> None:
        self.scanner = scanner
        self.leave_out = leave_out
        self.data = Pile(np.uint8)
        self.lengths = Pile(np.int32)
        self.folder = Pile(np.int32)
        self.sizes = Pile(np.int64)
        self.times = Pile(np.int64)
        self.folders: list[bytes] = []
        self.inside: set[_Branch] = set()  # the folders in parts of folders, which are walked after the last part
        self.tables: list[str] = []  # left out, but in the folder where the walk begins
        self.counted: Counter[str] = Counter()
        self.visits: Counter[Any] = Counter()  # of each folder

    def visit(self, branch: _Branch) -> None:
        """List one folder, then its subfolders."""
        for below in self.open(branch):
            self.visit(below)

    def open_part(self, branch: _Branch) -> None:
        """List one part of a folder."""
        relative, above, part = branch
        assert part is not None
        prefix = relative + b"/" if relative else b""
        for entries in part.pages():
            files, folders = self._chosen(entries, is_top=not relative)
            self._add(relative, files)
            self.inside |= {_Branch(prefix + name, (*above, relative)) for name in folders}

    def open(self, branch: _Branch) -> list[_Branch]:
        """List one folder and return its subfolders; a link back to a parent folder is not followed."""
        relative, above, _ = branch
        identity, entries = self.scanner.scan(relative)
        if identity in above:
            self.counted["links back to a folder above"] += 1
            return []
        self.visits[identity] += 1
        if self.visits[identity] > MOST_VISITS:
            raise too_many_links(os.fsdecode(relative))
        files, folders = self._chosen(entries, is_top=not relative)
        self._add(relative, files)
        prefix = relative + b"/" if relative else b""
        return [_Branch(prefix + name, (*above, identity)) for name in sorted(folders)]

    def _chosen(self, entries: list[Any], *, is_top: bool) -> tuple[list[tuple[bytes, int, int]], list[bytes]]:
        files: list[tuple[bytes, int, int]] = []
        folders: list[bytes] = []
        for entry in entries:
            name = entry.name
            if _is_hidden(name):
                self.counted["hidden files"] += 1
            elif entry.is_dir():
                folders.append(name)
            elif (why := self.leave_out(name)) is not None:
                self.counted[why] += 1
                if is_top and name.lower().endswith(_TABLES) and not name.startswith(b"_"):
                    self.tables.append(os.fsdecode(name))
            elif entry.is_file():
                status = entry.stat()
                files.append((name, status.st_size, status.st_mtime_ns))
            else:
                self.counted["broken links"] += 1
        files.sort()
        return files, folders

    def join_inside(self, helpers: Helpers, work: Callable[[Any], Any]) -> None:
        """Append what is in the folders that were met in parts of a folder."""
        inside, self.inside = sorted(self.inside), set()
        for begin in range(0, len(inside), _BRANCHES):
            for walked in do_all(helpers, work, inside[begin : begin + _BRANCHES]):
                self.join(walked)

    def result(self) -> FileList:
        """What was found."""
        lengths = self.lengths.whole()
        ends = roomy(len(lengths) + 1, np.int64)
        ends[0] = 0
        np.cumsum(lengths, out=ends[1:])
        return FileList(
            BytesColumn(ends, self.data.whole()),
            self.folder.whole(),
            self.sizes.whole(),
            self.times.whole(),
            BytesColumn.of(self.folders),
            {what: count for what, count in self.counted.items() if count},
            tuple(sorted(self.tables)),
        )

    def _add(self, relative: bytes, files: list[tuple[bytes, int, int]]) -> None:
        if not files:
            return
        prefix = relative + b"/" if relative else b""
        names = [prefix + name for name, _, _ in files]
        self.data.add(np.frombuffer(b"".join(names), np.uint8))
        self.lengths.add(np.fromiter(map(len, names), np.int32, len(names)))
        self.sizes.add(np.fromiter((size for _, size, _ in files), np.int64, len(files)))
        self.times.add(np.fromiter((time for _, _, time in files), np.int64, len(files)))
        if self.folders[-1:] != [relative]:
            self.folders.append(relative)
        self.folder.add(np.full(len(files), len(self.folders) - 1, np.int32))

    def join(self, other: _Walk) -> None:
        """Append what another walk found."""
        continues = bool(self.folders) and self.folders[-1:] == other.folders[:1]  # the next part of the same folder
        self.folder.add(other.folder.whole() + np.int32(len(self.folders) - continues))
        for name in ("data", "lengths", "sizes", "times"):
            getattr(self, name).extend(getattr(other, name))
        self.folders += other.folders[continues:]
        self.inside |= other.inside
        self.tables += other.tables
        self.counted.update(other.counted)


_BRANCHES, _LEVELS = 64, 3  # enough folders to keep a cluster busy, and how deep to look for them
_LISTED_AT_ONCE = 8  # folders of a store, if there is only this machine


def _walk_shared(scanner: Scanner, leave_out: LeaveOut, helpers: Helpers) -> _Walk:
    """List the top folders here, and share the walk through those below them."""
    opened: list[_Walk | _Branch] = [_Branch(b"", ())]
    for _ in range(_LEVELS):
        if sum(isinstance(step, _Branch) for step in opened) >= _BRANCHES:
            break
        opened = [deeper for step in opened for deeper in _opened(step, scanner, leave_out)]
    found = _Walk(scanner, leave_out)
    work = partial(_walk_branch, scanner, leave_out)
    for begin in range(0, len(opened), _BRANCHES):
        some = opened[begin : begin + _BRANCHES]  # more would take much memory
        below = iter(do_all(helpers, work, [step for step in some if isinstance(step, _Branch)]))
        for step in some:
            if found.inside and not (isinstance(step, _Branch) and step.part is not None):
                found.join_inside(helpers, work)
            found.join(next(below) if isinstance(step, _Branch) else step)
    found.join_inside(helpers, work)
    return found


def _opened(step: _Walk | _Branch, scanner: Scanner, leave_out: LeaveOut) -> list[_Walk | _Branch]:
    if not isinstance(step, _Branch) or step.part is not None:
        return [step]
    if parts := scanner.parts(step.relative):
        return [step._replace(part=part) for part in parts]
    own = _Walk(scanner, leave_out)
    below = own.open(step)
    return [own, *below]


def _walk_branch(scanner: Scanner, leave_out: LeaveOut, branch: _Branch) -> _Walk:
    if branch.part is not None:
        found = _Walk(scanner, leave_out)
        found.open_part(branch)
        return found
    found = _Walk(scanner.below(branch.relative), leave_out)
    found.visit(branch)
    found.scanner = scanner  # without what it listed
    return found


def _is_hidden(name: bytes) -> bool:
    return name.startswith(b".") or name.lower() in _OF_SYSTEMS


def walk(folder: Path, leave_out: LeaveOut, helpers: Helpers = None) -> FileList:
    """List the files below a folder; hidden files and those that `leave_out` names are only counted."""
    scanner = scanner_of(folder)
    if helpers is None and not scanner.waits:
        return _walk_branch(scanner, leave_out, _Branch(b"", ())).result()
    return _walk_shared(scanner, leave_out, helpers or _in_threads).result()


def _in_threads(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterable[Any]:
    """Threads as helpers, to list folders of a store: they only wait."""
    return Ahead(work, parts, threads=_LISTED_AT_ONCE, ahead=_LISTED_AT_ONCE)


def walk_or_take(path: Path, leave_out: LeaveOut, helpers: Helpers = None) -> FileList:
    """The files below a folder, or a single file, whatever its name."""
    if path.is_dir() or not path.exists():
        return walk(path, leave_out, helpers)
    status = path.stat()
    sizes, times = np.array([status.st_size]), np.array([status.st_mtime_ns])
    return FileList(BytesColumn.of([path.name]), np.zeros(1, np.int32), sizes, times, BytesColumn.of([""]), {})


def digest_of(files: FileList) -> str:
    """A digest of the names, sizes and times of all files."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (files.paths.data, files.paths.offsets, files.sizes, files.times):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


@dataclass(eq=False, kw_only=True)
class FolderSource(Source):
    """What sources of files in folders share: the files, and labels and splits from folder names."""

    takes: ClassVar[str]  # a source of `file_kinds`, such as images
    any_thread: ClassVar[bool] = True
    has_class_folders: ClassVar[bool] = True
    path: str
    class_folder: ClassFolder
    recipe: dict[str, Any]
    spooled: Path | None = None
    left_out: dict[str, int] = field(default_factory=dict)  # when it was pickled

    @cached_property
    def root(self) -> str:
        """The folder: the path itself, or the parent of a single file."""
        return self.path if as_path(self.path).is_dir() else str(as_path(self.path).parent)

    @cached_property
    def files(self) -> FileList:
        """The files. In another process, those that were there when the source was pickled."""
        if self.spooled is not None and (self.spooled / "columns.json").exists():
            columns: Any = load_columns(self.spooled)
            return FileList(**columns, counted=self.left_out)
        return self.find_files()

    def find_files(self, helpers: Helpers = None) -> FileList:
        """Look for the files."""
        return walk_or_take(as_path(self.path), files_of(self.takes), helpers)

    def look(self, helpers: Helpers) -> None:
        """Look for the files now, together with helpers."""
        self.__dict__["files"] = self.find_files(helpers)

    @cached_property
    def listed(self) -> dict[str, Column]:
        """Label and split, if folder names give them."""
        return told_by_folders(self.files, self.class_folder)

    @property
    def split(self) -> str | None:
        """`split`, if files have splits."""
        return "split" if "split" in self.listed else None

    def file_at(self, row: int) -> Path:
        """The path of a file."""
        return self._folder / os.fsdecode(self.files.paths[row])

    @cached_property
    def _folder(self) -> Path:
        return as_path(self.root)

    def key_at(self, row: int) -> bytes:
        """The path of a file as a key."""
        return as_keys(self.files.paths.take(np.array([row])))[0]

    def list_cut(self, file: int, keys: BytesColumn, columns: Sequence[str], counted: dict[str, int]) -> Listing:
        """The samples of one file: they share its label and split, and `group` names the file."""
        there = {name: take(column, np.full(len(keys), file)) for name, column in self.listed.items()}
        assert self.group is not None
        there |= {"key": keys, self.group: BytesColumn.of([self.key_at(file)] * len(keys))}
        if file == 0:
            counted = counted | self.files.counted
        return Listing(keys, {name: there[name] for name in columns if name in there}, counted=counted)

    @cached_property
    def digest(self) -> str:
        """A digest of the names, sizes and times of all files."""
        return digest_of(self.files)

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options."""
        return fingerprint_of([], self.describe(), self.digest)

    def describe(self) -> dict[str, Any]:
        """The path and options."""
        return dict(self.recipe)

    def spool(self, folder: Path | None = None) -> None:
        """Write what was listed to files that other processes can map, in `folder` or in a temporary folder."""
        if not is_spooled(self.spooled, folder):
            self.spooled = spool_columns(self.files.columns(), folder)

    def __getstate__(self) -> dict[str, Any]:
        self.spool()
        self.left_out = self.files.counted
        return {name: value for name, value in self.__dict__.items() if name not in ("files", "listed")}


@dataclass(frozen=True)
class FolderNames:
    """Label and split by folder, from its name; None if the name gives none."""

    labels: list[str | None]
    splits: list[str | None]


def classes_of(folders: Sequence[bytes], class_folder: ClassFolder) -> FolderNames:
    """Class and split by folder. Folders are splits only if all top folders are named like splits."""
    parts = [_text(folder).split("/") if folder else [] for folder in folders]
    splits = [split_of_name(names[0]) if names else None for names in parts]
    are_splits = bool(parts) and None not in splits
    splits = splits if are_splits else [None] * len(parts)
    below = [names[1:] if are_splits else names for names in parts]
    pick: dict[str, Callable[[list[str]], str | None]] = {
        "first": lambda names: names[0],
        "last": lambda names: names[-1],
        "path": "/".join,
        "none": lambda _: None,
    }
    if class_folder not in pick:
        raise ValueError(f"class_folder must be 'first', 'last', 'path' or 'none'; got {class_folder!r}")
    return FolderNames([pick[class_folder](names) if names else None for names in below], splits)


def told_by_folders(files: FileList, class_folder: ClassFolder) -> dict[str, Column]:
    """Label and split of each file, if folder names give them."""
    names = classes_of(files.folders.to_list(), class_folder)
    found: dict[str, Column] = {}
    if any(label is not None for label in names.labels):
        found["label"] = by_folder(names.labels, files.folder)
    if any(split is not None for split in names.splits):
        found["split"] = by_folder(names.splits, files.folder)
    return found


def _text(name: bytes) -> str:
    """A file name as text that can be stored: bytes that are not UTF-8 are escaped."""
    return name.decode(errors="backslashreplace")


def as_keys(paths: BytesColumn) -> BytesColumn:
    """Paths as keys, which are UTF-8."""
    reader = codecs.getincrementaldecoder("utf-8")()
    try:
        for some in steps(len(paths.data)):
            reader.decode(paths.data[some].tobytes())
        reader.decode(b"", final=True)
    except UnicodeDecodeError:
        return BytesColumn.of([_text(path) for path in paths])
    return paths


def by_folder(values: Sequence[str | None], folder: NDArray[np.int32]) -> Column:
    """Expand one value per folder to one value per file."""
    column = BytesColumn.of([value or "" for value in values])
    if None not in values:
        return column.take(folder)
    there = np.array([value is not None for value in values], bool)[folder]
    return with_missing(column.take(folder[there]), there)
