"""Paths, folders and patterns to files, on disk and in stores alike."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from bushel.errors import FileProblem, nearest
from bushel.storage import stores
from bushel.storage.file_kinds import has_record_name, kind_of_name
from bushel.storage.objects import ObjectPath, parse_object
from bushel.storage.whole_folders import finish_move

__all__ = [
    "TFDS_FEATURES",
    "TFDS_INFO",
    "AnyPath",
    "Scanner",
    "Witness",
    "as_path",
    "disk_folders",
    "disk_sizes",
    "fault_of_witness",
    "first_in",
    "fixed_part",
    "is_in_store",
    "list_files",
    "listed",
    "local_name",
    "may_have_changed",
    "names_below",
    "natural_order",
    "on_disk",
    "paths_below",
    "presence",
    "scanner_of",
    "shard_paths",
    "sharing_help",
    "sibling",
    "similar_names",
    "sizes_in",
    "tfds_folder",
    "witnesses",
]

AnyPath: TypeAlias = str | PathLike[str]
_AT_ONCE = 16  # requests

# Files that bushel writes next to the data, and hidden ones.
_BESIDE = re.compile(r"^[._]|\.schema\.json$|^dataset\.json$|^recipe\.toml$")
TFDS_INFO, TFDS_FEATURES = "dataset_info.json", "features.json"  # of TensorFlow Datasets, beside shards


def as_path(path: AnyPath) -> Path:
    """A path on this machine, or in an object store if it begins with s3://, gs:// or az://."""
    return parse_object(path) or Path(path)


def is_in_store(path: AnyPath) -> bool:
    """Whether a path is in an object store. Ask this only where an operation below cannot hide the difference."""
    return isinstance(as_path(path), ObjectPath)


def on_disk(path: AnyPath, *, otherwise: str) -> Path:
    """A path that must be on this machine. `otherwise` is the message of the ValueError for one in a store."""
    if isinstance(found := as_path(path), ObjectPath):
        raise ValueError(otherwise)
    return found


def local_name(path: AnyPath) -> str:
    """A name on this machine for what is made from a path: the path itself, or its last part if it is in a store."""
    found = as_path(path)
    return found.name if isinstance(found, ObjectPath) else os.fspath(path)


def disk_folders(paths: Iterable[AnyPath]) -> list[Path]:
    """Those of the paths that are folders on this machine, which other programs can look into."""
    return [path for path in map(as_path, paths) if not isinstance(path, ObjectPath) and path.is_dir()]


def disk_sizes(paths: Iterable[AnyPath]) -> list[int]:
    """The sizes in bytes of those files that are read from the disk of this machine."""
    there = (path for path in map(as_path, paths) if not isinstance(path, ObjectPath))
    return [path.stat().st_size for path in there if path.is_file()]


def may_have_changed(paths: Iterable[Path], *, since: Path) -> bool:
    """Whether files, or something in folders, may be newer than another file: always in a store, with its own clock."""
    if isinstance(since, ObjectPath):
        return True
    written = since.stat().st_mtime_ns
    return any(isinstance(path, ObjectPath) or _newest_change(path) > written for path in paths)


def _newest_change(path: Path) -> int:
    inside = path.rglob("*") if path.is_dir() else list_files(path)
    return max(int(one.stat().st_mtime_ns) for one in [*([path] if path.exists() else []), *inside])


_WITNESSES = 8  # of a folder or pattern


class Witness(NamedTuple):
    """A file or folder by which another machine shows that it sees the same one."""

    path: str
    facts: tuple[int, int] | None  # size (-1 for a folder) and time; None in a store, where being there is enough


def witnesses(paths: Iterable[Path]) -> list[Witness]:
    """Files, and a few of those in folders and patterns. Missing ones are reported elsewhere."""
    found: dict[Witness, None] = {}
    for path in paths:
        if isinstance(path, ObjectPath):
            found[Witness(str(fixed_part(path)), None)] = None
        else:
            found |= {Witness(str(one.absolute()), _facts(one)): None for one in _some_of(path)}
    return list(found)


def _some_of(path: Path) -> list[Path]:
    if path.is_dir():
        return [path, *_spread(list(islice(paths_below(path), 10_000)))]
    if path.exists() or not glob.has_magic(str(path)):
        return [path] if path.exists() else []
    return _spread(sorted(Path(name) for name in glob.iglob(str(path), recursive=True)))


def _spread(paths: list[Path]) -> list[Path]:
    return paths[:: max(1, len(paths) // _WITNESSES)][:_WITNESSES]


def _facts(path: Path) -> tuple[int, int]:
    status = path.stat()
    return (-1, 0) if path.is_dir() else (status.st_size, int(status.st_mtime))


def fault_of_witness(witness: Witness) -> str:
    """How what this machine sees differs, as the end of a sentence about it; empty if it sees the same."""
    path = as_path(witness.path)
    try:
        facts = _facts(path) if witness.facts is not None else None
        is_there = facts is not None or path.exists()
    except FileProblem as error:
        return f"does not see it: {str(error).splitlines()[0].removeprefix(f'{path}: ')}"
    except OSError:
        return "does not see it"
    if not is_there:
        return "does not see it: it is not there"
    if facts is not None and not os.access(path, os.R_OK):
        return "has no permission to read it"
    return "" if facts == witness.facts else "sees another file there"


def sharing_help(path: AnyPath) -> str:
    """What the machines of a cluster need in order to see a path."""
    if is_in_store(path):
        return "All nodes need the store's credentials, region and endpoint, each in its own environment."
    return "Sources must be at the same path on all nodes."


def list_files(paths: AnyPath | Iterable[AnyPath]) -> list[Path]:
    """Turn files, folders and patterns into the files that they name.

    Files come in the order given; those of one pattern or folder in the order of the numbers in their names. A path
    that names nothing is an error.
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise ValueError("paths must name at least one file, got none")
    files: list[Path] = []
    for path in map(as_path, given):
        files.extend(_objects_of(path) if isinstance(path, ObjectPath) else _files_of(path))
    return files


def _no_files(folder: Path) -> FileProblem:
    below = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._")
    if not below:
        return FileProblem(folder, "there are no files in this folder")
    what = f"there are no files in this folder, only folders: {', '.join(below[:3])}{', ...' * (len(below) > 3)}"
    return FileProblem(folder, what, help=[f"Raw data becomes TFRecords with `bushel build {folder} OUT`"])


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        found = _but_notes([file for file in path.iterdir() if not _BESIDE.search(file.name) and file.is_file()])
        found = found or _in_known_folders(path)
        if not found:
            raise _no_files(path)
        return sorted(found, key=natural_order)
    if path.exists():
        return [path]
    if finish_move(path):
        return _files_of(path)
    if glob.has_magic(str(path)):
        found = [Path(name) for name in glob.iglob(str(path), recursive=True) if Path(name).is_file()]
        if not found:
            raise FileProblem(path, "no file matches this pattern", help=[f"The search began in {Path.cwd()}"])
        return sorted(found, key=natural_order)
    raise FileProblem(path, "there is no such file", help=similar_names(path))


_NOTES = (".json", ".txt", ".md", ".pbtxt", ".yaml", ".yml", ".html")


def _but_notes(files: list[Path]) -> list[Path]:
    """Files without those of other kinds beside TFRecords: descriptions, tables, arrays, previews."""
    if not any(has_record_name(file.name) for file in files):
        return files
    return [file for file in files if not _is_beside_records(file.name)]


def files_beside(records: Iterable[Path]) -> list[Path]:
    """Data of other kinds in the folders of TFRecords on this machine: it is not read with them."""
    folders = {path.parent for path in records if has_record_name(path.name) and not isinstance(path, ObjectPath)}
    found = [file for folder in folders for file in folder.iterdir() if not _BESIDE.search(file.name)]
    is_note = [file.name.lower().endswith(_NOTES) for file in found]
    return sorted(file for file, note in zip(found, is_note, strict=True) if not note and _is_beside_records(file.name))


def _is_beside_records(name: str) -> bool:
    kind = kind_of_name(name)
    return name.lower().endswith(_NOTES) or (kind is not None and kind.source not in ("", "records", "text"))


def _in_known_folders(path: Path) -> list[Path]:
    """The files in `Split-train` and its like, as TFX writes them, or in the one version of TensorFlow Datasets."""
    inside = [folder for folder in path.iterdir() if folder.is_dir() and not folder.is_symlink()]
    splits = [folder for folder in inside if folder.name.startswith("Split-")]
    if splits:
        return [file for folder in splits for file in folder.iterdir() if file.is_file()]
    described = tfds_folder(path)
    if described is not None:
        return _files_of(described)
    if len(inside) == 1:
        return _in_known_folders(inside[0]) or _records_in(inside)
    return _records_in(inside)


def _records_in(folders: list[Path]) -> list[Path]:
    """The TFRecords right in these folders, such as `train` and `val`; none if one of them is a dataset of its own."""
    if any((folder / "dataset.json").is_file() for folder in folders):
        return []
    return [file for folder in folders for file in folder.iterdir() if has_record_name(file.name) and file.is_file()]


def tfds_folder(path: Path) -> Path | None:
    """The folder that TensorFlow Datasets describes: this one, or the only one in it, as in `mnist/3.0.1`."""
    for _ in range(4):
        if (path / TFDS_INFO).is_file() and (path / TFDS_FEATURES).is_file():
            return path
        if isinstance(path, ObjectPath) or not path.is_dir():
            return None
        with os.scandir(path) as entries:
            inside = list(islice(entries, 2))
        if len(inside) != 1 or not inside[0].is_dir(follow_symlinks=False):
            return None
        path = path / inside[0].name
    return None


def _objects_of(path: ObjectPath) -> list[Path]:
    if path.known is not None:
        return [path]
    if glob.has_magic(str(path)):
        found: list[Path] = [file for file in path.matching() if not file.name.startswith(".")]
        if not found:
            raise FileProblem(path, "no object matches this pattern")
        return sorted(found, key=natural_order)
    inside = list(path.iterdir())
    if not inside and path.key.name and path.is_file():
        return [path]
    found = _but_notes([file for file in inside if file.known is not None and not _BESIDE.search(file.name)])
    if not inside:
        raise FileProblem(path, "there is no such object", help=similar_names(path))
    if not found:
        raise FileProblem(path, "there are no objects in this folder")
    return sorted(found, key=natural_order)


def listed(paths: list[Path]) -> list[Path]:
    """The same paths; those in stores know their status from one listing per folder, not from a request each."""
    if len(paths) < 3 or not all(isinstance(path, ObjectPath) for path in paths):
        return paths
    there = {file: file for folder in {path.parent for path in paths} for file in folder.iterdir()}
    return [there.get(path, path) for path in paths]


def presence(*folders: Path | None) -> Callable[[Path], bool]:
    """A function that says whether a file exists: on disk by asking each time, in a store by one listing per folder."""
    stored = [folder for folder in dict.fromkeys(folders) if isinstance(folder, ObjectPath)]
    if not stored:
        return Path.is_file
    there = {str(path) for folder in stored for path in folder.below()}
    return lambda path: str(path) in there


def shard_paths(folder: Path, names: Iterable[str]) -> list[Path]:
    """The files of a dataset; a store is listed once instead of once per file."""
    if not isinstance(folder, ObjectPath):
        return [folder / name for name in names]
    names = list(names)
    there = {file.name: file for file in folder.children(names)}
    paths: list[Path] = [there[name] if name in there else folder / name for name in names]
    if not there and len(paths) > 1:  # a web server that lists nothing
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda path: path.is_file(), paths))
    return paths


def sizes_in(folder: Path) -> dict[str, int]:
    """The size in bytes of each file in a folder, by name, from one listing."""
    if isinstance(folder, ObjectPath):
        return {path.name: path.known.size for path in folder.iterdir() if path.known is not None}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}


def first_in(folder: Path, suffix: str) -> list[Path]:
    """The files right in a folder whose names end so; of a large folder in a store, those among its first names."""
    if isinstance(folder, ObjectPath) and _has_many(folder.key):
        found: Iterable[Path] = islice(folder.below(), _MANY * stores.PAGE)
    else:
        found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if path.name.endswith(suffix))


def paths_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, however deep."""
    if isinstance(folder, ObjectPath):
        return folder.below()
    return (Path(at) / name for at, _, names in os.walk(folder) for name in names)


def names_below(folder: Path) -> Iterator[str]:
    """The names of all files below a folder, except those in hidden folders."""
    if isinstance(folder, ObjectPath):
        depth = len(folder.parts)
        inside = (path for path in folder.below() if not any(part[0] in "._" for part in path.parts[depth:-1]))
        yield from (path.name for path in inside)
        return
    visits: Counter[tuple[int, int]] = Counter()
    for at, folders, files in os.walk(folder, followlinks=True):
        status = os.stat(at)  # noqa: PTH116
        visits[status.st_dev, status.st_ino] += 1
        if visits[status.st_dev, status.st_ino] > MOST_VISITS:
            raise too_many_links(at)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from sorted(files)


MOST_VISITS = 1000  # of one folder, through links: those that fan out lead to more folders than there are atoms


def too_many_links(folder: str) -> FileProblem:
    """The error for links that lead to one folder again and again."""
    return FileProblem(folder, f"links lead to this folder more than {MOST_VISITS:,} times")


def sibling(path: Path, name: str) -> Path | None:
    """A folder of this name next to a folder; None for a bucket, which has no siblings."""
    if isinstance(path, ObjectPath):
        return None if len(path.parts) <= 2 else path.with_name(name)
    return path.absolute().parent / name


def refuse_in_dataset(place: Path, paths: Iterable[AnyPath]) -> None:
    """Refuse to write a file into one of the folders that are read, which no command that looks at them changes."""
    for folder in map(as_path, paths):
        if folder.is_dir() and place.absolute().parent == folder.absolute():
            raise FileProblem(place, "is inside the dataset, which is not changed; write it elsewhere")


def fixed_part(path: Path) -> Path:
    """The folder in which a pattern is searched; the path itself if it is not a pattern."""
    fixed = next((i for i, part in enumerate(path.parts) if glob.has_magic(part)), len(path.parts))
    return type(path)(*path.parts[:fixed])


def similar_names(path: Path) -> list[str]:
    """A line of help: the file next to a missing one with the most similar name."""
    if not isinstance(path, ObjectPath) and not path.parent.is_dir():
        return [f"There is no folder {path.parent} either; the search began in {Path.cwd()}"]
    is_bucket = isinstance(path, ObjectPath) and len(path.parts) <= 2
    close = nearest(path.name, [] if is_bucket else [file.name for file in path.parent.iterdir()])
    return [f"Did you mean {path.parent / close}?"] if close else []


def natural_order(path: Path) -> list[Any]:
    """A sort key by which part-10 comes after part-9."""
    pieces = re.split(r"(\d+)", str(path))
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


class Scanner(Protocol):
    """Lists the folders below a root one at a time."""

    @property
    def waits(self) -> bool:
        """Whether it mostly waits for answers, so that several should be waited for at a time."""
        ...

    def below(self, relative: bytes) -> Scanner:
        """One for a folder and all that is in it, however deep."""
        ...

    def scan(self, relative: bytes) -> tuple[Any, list[Any]]:
        """What identifies a folder, so that links back are found, and its entries as `os.scandir` gives them."""
        ...

    def parts(self, relative: bytes) -> list[FolderPart]:
        """The parts of a folder in which it is listed on several machines; none if it is not that large."""
        ...


def scanner_of(folder: Path) -> Scanner:
    """What lists a folder and those below it. Raises `FileProblem` if there is no such folder."""
    if isinstance(folder, ObjectPath):
        if not folder.is_dir():
            raise FileProblem(folder, "is an object, not a folder" if folder.is_file() else "there is no such folder")
        return _StoreScanner(folder)
    if not folder.exists():
        close = nearest(folder.name, [p.name for p in folder.parent.iterdir()]) if folder.parent.is_dir() else None
        help = [f"Did you mean {folder.with_name(close)}?"] if close else []
        raise FileProblem(folder, "there is no such folder", help=help)
    if not folder.is_dir():
        raise FileProblem(folder, "is a file, not a folder")
    return _DiskScanner(os.fsencode(folder))


class _DiskScanner(NamedTuple):
    root: bytes
    waits: bool = False

    def below(self, relative: bytes) -> _DiskScanner:  # noqa: ARG002
        return self

    def scan(self, relative: bytes) -> tuple[Any, list[Any]]:
        place = os.path.join(self.root, relative) if relative else self.root  # noqa: PTH118 (bytes)
        status = os.stat(place)  # noqa: PTH116
        try:
            with os.scandir(place) as found:
                return (status.st_dev, status.st_ino), list(found)
        except PermissionError:
            raise FileProblem(os.fsdecode(place), "there is no permission to list this folder") from None

    def parts(self, relative: bytes) -> list[FolderPart]:  # noqa: ARG002
        return []


class _StoreEntry(NamedTuple):
    """An object or a folder of a store, as an `os.DirEntry`."""

    name: bytes
    st_size: int = -1
    st_mtime_ns: int = 0

    def is_dir(self) -> bool:
        return self.st_size < 0

    def is_file(self) -> bool:
        return self.st_size >= 0

    def stat(self) -> _StoreEntry:
        return self


class _StoreScanner(NamedTuple):
    """Lists folders of a store: each with a request, or all below one with a request per thousand objects."""

    root: ObjectPath
    waits: bool = True

    def below(self, relative: bytes) -> _StoreTree:
        return _StoreTree(self._folder(relative), relative)

    def scan(self, relative: bytes) -> tuple[Any, list[Any]]:
        inside = self._folder(relative).iterdir()
        return relative, [_entry_of(path) for path in inside]

    def parts(self, relative: bytes) -> list[FolderPart]:
        key = self._folder(relative).key
        start = f"{key.name}/" if key.name else ""
        if not stores.starts_anywhere(key) or not _has_many(key):
            return []
        edges = [start, *_cuts_below(key, start)]
        return [FolderPart(key, start, *edge) for edge in zip(edges, [*edges[1:], None], strict=True)]

    def _folder(self, relative: bytes) -> ObjectPath:
        return self.root / os.fsdecode(relative) if relative else self.root


_LAST = chr(0x10FFFF)  # a character that comes after all others
_CUTS = 64
_MANY = 10  # pages


def _has_many(key: stores.Key) -> bool:
    """Whether a folder begins with many objects of its own."""
    begin, most = len(key.name) + 1 if key.name else 0, _MANY * stores.PAGE
    own = takewhile(lambda found: "/" not in found.name[begin:], stores.list_all(key))
    return sum(1 for _ in islice(own, most)) == most


class FolderPart(NamedTuple):
    """The objects of a folder whose names come after one, up to another."""

    key: stores.Key
    start: str  # of all names
    after: str
    until: str | None

    def pages(self) -> Iterator[list[_StoreEntry]]:
        """What is there, some entries at a time. What is in folders there is passed over."""
        after: str | None = self.after
        while after is not None:
            found, after = stores.list_all(self.key, after, self.until), None
            while after is None and (some := list(islice(found, stores.PAGE))):
                own = list(takewhile(lambda one: "/" not in one.name[len(self.start) :], some))
                yield [self._entry(one) for one in own]
                if len(own) < len(some):
                    inside = some[len(own)].name[len(self.start) :].partition("/")[0]
                    yield [_StoreEntry(os.fsencode(inside))]
                    after = f"{self.start}{inside}/{_LAST}"

    def _entry(self, found: stores.Found) -> _StoreEntry:
        return _StoreEntry(os.fsencode(found.name[len(self.start) :]), found.status.size, found.status.mtime_ns)


def _cuts_below(key: stores.Key, start: str) -> list[str]:
    """Names that cut what is below a prefix into many parts: the beginnings that names have, as far as is needed."""
    parents, cuts = [_common(key, start)], list[str]()
    while parents and len(cuts) < _CUTS:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda parent: _beginnings(key, parent), parents))
        cuts += [beginning for some in found for beginning, _ in some[1:]]
        parents = [beginning for some in found for beginning, is_large in some if is_large]
    return sorted(cuts)


def _common(key: stores.Key, start: str) -> str:
    """What all names that begin with `start` begin with."""
    first = next(stores.list_all(key, start)).name
    low, high = len(start), len(first)
    while low < high:
        middle = (low + high + 1) // 2
        other = next(stores.list_all(key, first[:middle] + _LAST), None)
        low, high = (middle, high) if other is None or not other.name.startswith(start) else (low, middle - 1)
    return first[:low]


def _beginnings(key: stores.Key, parent: str) -> list[tuple[str, bool]]:
    """How names go on after `parent`: with one more letter each; and whether many begin like that."""
    found: dict[str, bool] = {}
    after = parent
    while page := [one.name for one in islice(stores.list_all(key, after), stores.PAGE) if one.name.startswith(parent)]:
        found |= dict.fromkeys((name[: len(parent) + 1] for name in page), False)
        last = page[-1][: len(parent) + 1]
        found[last] = found[last] or len(page) == stores.PAGE
        after = last + _LAST
    return list(found.items())


def _entry_of(path: ObjectPath) -> _StoreEntry:
    name = os.fsencode(path.name)
    return _StoreEntry(name) if path.known is None else _StoreEntry(name, path.known.size, path.known.mtime_ns)


class _StoreTree:
    """Lists everything below a folder at once and sorts it into folders."""

    waits = False

    def __init__(self, folder: ObjectPath, relative: bytes) -> None:
        self._tree: dict[bytes, dict[bytes, _StoreEntry]] = {relative: {}}
        depth = len(folder.parts)
        for path in folder.below():
            *folders, _ = (os.fsencode(part) for part in path.parts[depth:])
            above = relative
            for inside in folders:
                self._tree[above].setdefault(inside + b"/", _StoreEntry(inside))  # an object may have the name too
                above = above + b"/" + inside if above else inside
                self._tree.setdefault(above, {})
            entry = _entry_of(path)
            self._tree[above][entry.name] = entry

    def below(self, relative: bytes) -> _StoreTree:  # noqa: ARG002
        return self

    def scan(self, relative: bytes) -> tuple[Any, list[Any]]:
        return relative, list(self._tree[relative].values())

    def parts(self, relative: bytes) -> list[FolderPart]:  # noqa: ARG002
        return []
