"""How far raw sources reach: links and names that lead out of the folders that the user named.

They are followed, because such sources are often spread over several disks, and counted. A caller may refuse them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from bushel.errors import FileProblem
from bushel.storage.doors import read_inside, read_named
from bushel.storage.listing import fixed_part
from bushel.storage.objects import ObjectPath

__all__ = ["LINKS_OUT", "NAMED_OUT", "check_inside", "links_out", "read_below", "refuse_links_out"]

LINKS_OUT = "links that lead out of the folder of the source and were followed (--inside refuses them)"
NAMED_OUT = "images outside the folder of the source that it names (--inside refuses them)"


def links_out(paths: Iterable[Path], roots: Sequence[Path] = ()) -> Iterator[Path]:
    """The links in folders, or among what patterns match, that lead out of `roots`; by default, out of each folder.

    Hidden folders are not searched, because sources leave them out. Stores have no links.
    """
    for path in paths:
        if isinstance(path, ObjectPath):
            continue
        within = _real_roots(roots or [path])
        found = _links_below(path) if path.is_dir() else map(Path, glob.iglob(str(path), recursive=True))
        yield from (one for one in found if one != path and not _is_within(one, within))


def _real_roots(roots: Iterable[Path]) -> list[Path]:
    return [Path(os.path.realpath(fixed_part(root))) for root in roots if not isinstance(root, ObjectPath)]


def _is_within(path: Path, roots: Iterable[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots)


def _links_below(folder: Path) -> Iterator[Path]:
    for at, folders, _ in os.walk(folder):
        with os.scandir(at) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
        yield from (Path(at, name) for name in sorted(links) if not name.startswith("."))
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))


def check_inside(paths: Iterable[Path], roots: Sequence[Path]) -> None:
    """Refuse paths that are not in `roots`, links followed. Nothing is opened."""
    within, stores = _real_roots(roots), [str(root) for root in roots if isinstance(root, ObjectPath)]
    for path in paths:
        is_remote = isinstance(path, ObjectPath)
        if not (str(path).startswith(tuple(stores)) if is_remote else _is_within(fixed_part(path), within)):
            help = ["Name it on the command line, or build without --inside."]
            raise FileProblem(path, f"is outside of {_shown(roots)}, and --inside refuses that", help=help)


def refuse_links_out(paths: Iterable[Path], roots: Sequence[Path]) -> None:
    """Refuse links in folders, or among what patterns match, that lead out of `roots`. Nothing is opened."""
    for link in links_out(paths, roots):
        help = ["Put what it leads to into the folder, or build without --inside."]
        raise FileProblem(link, f"is a link that leads out of {_shown(roots)}, and --inside refuses those", help=help)


def _shown(roots: Sequence[Path]) -> str:
    return " and ".join(dict.fromkeys("the working folder" if str(root) == "." else str(root) for root in roots))


def read_below(root: Path, name: str, *, is_inside: bool) -> tuple[bytes, bool]:
    """All bytes of a file that a source names, and whether it is outside the folder, which `is_inside` refuses."""
    if is_inside:
        return read_inside(root, name), False
    path = root / name
    data = read_named(path)
    return data, not isinstance(path, ObjectPath) and not _leads_inside(path, root)


def _leads_inside(path: Path, root: Path) -> bool:
    """Whether a file is below a folder, links followed; folders are looked at once."""
    top, at = _real(str(root)), _real(str(path.parent))
    if path.is_symlink():
        return _is_within(path, [top])
    return at.is_relative_to(top)


@lru_cache(maxsize=4096)
def _real(folder: str) -> Path:
    return Path(os.path.realpath(folder))
