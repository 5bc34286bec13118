"""File names made of texts that data brought: keys, classes, splits.

Different texts must be different files on every file system. Some fold upper and lower case, some fold forms of
Unicode, some forget characters that nobody sees, and each refuses other names. So names are compared as the one that
folds the most does, and where two would meet, both carry the number of what they stand for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import BushelError

__all__ = ["FileName", "FileNames", "fold_name", "is_plain_name", "name_each", "plain_name", "refuse_alike"]

FileName = NewType("FileName", str)  # made here, and what names of files are made of

_LONGEST = 120  # bytes: file systems end at 255, some of them in a form that takes three times as many
_REFUSED = re.compile(r'[\x00-\x1f\x7f-\x9f/\\<>:"|?*\u2028\u2029\ud800-\udfff]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\..*)?", re.IGNORECASE | re.DOTALL)
_NUMBERED = re.compile(r"~\d+$")


def plain_name(text: str) -> str:
    """A text as the name of a file on any system, as close to it as that allows. Different texts may become one."""
    name = _REFUSED.sub("_", text)
    name = "".join("_" if unicodedata.category(char) in ("Cf", "Cn", "Co", "Cs") else char for char in name)
    name = name.encode()[:_LONGEST].decode(errors="ignore")
    name = re.sub(r"^\s+|[\s.]+$", "", name)
    if not name or name[0] == "." or _DEVICES.fullmatch(name):
        name = f"_{name}"
    return name


def fold_name(name: str) -> str:
    """What a file system that folds the most would take a name for."""
    seen = "".join(char for char in unicodedata.normalize("NFKD", name) if not _is_ignored(char))
    return unicodedata.normalize("NFKD", seen.upper().casefold()).rstrip(". ")


def _is_ignored(char: str) -> bool:
    """Whether a file system may forget a character: those that join, select or are not seen."""
    is_unseen = "\ufe00" <= char <= "\ufe0f" or char in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    return is_unseen or unicodedata.category(char) in ("Cf", "Cc")


def refuse_alike(splits: Iterable[str]) -> None:
    """Refuse splits whose shards would be one file on a system that folds names, as most laptops do."""
    seen: dict[str, str] = {}
    for name in splits:
        other = seen.setdefault(fold_name(name), name)
        if other != name:
            what = f"the splits {other!r} and {name!r} would have the same files where upper and lower case are one"
            raise BushelError(what, help=["Give them one name in the source, or names that differ by more than case."])


def is_plain_name(text: str) -> bool:
    """Whether a text can be the name of a file or folder as it is, and be printed."""
    return text.isprintable() and plain_name(text) == text


class FileNames:
    """Names for many texts in folders; made of all of them, as only then those that would meet are known.

    Each is a pair of its folder and itself, of which eight bytes are kept. `taken` are pairs of what else is there.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, taken: Iterable[tuple[str, str]] = ()) -> None:
        hashes: NDArray[np.uint64] = np.fromiter((_hash(folder, plain_name(text)) for folder, text in texts), np.uint64)
        found, counts = np.unique(hashes, return_counts=True)
        self._crowded = {*found[counts > 1].tolist(), *(_hash(folder, name) for folder, name in taken)}

    def name(self, text: str, number: int, *, folder: str = "", suffix: str = "") -> FileName:
        """The name of a text, with a suffix of one dot. `number` is its own among all texts of the folder."""
        name = plain_name(text)
        if _hash(folder, name) in self._crowded or _NUMBERED.search(fold_name(name)):
            name = f"{name}~{number}"
        return FileName(name + suffix)


def name_each(texts: Iterable[str], *, taken: Iterable[str] = ()) -> dict[str, FileName]:
    """Names for different texts in one folder, by text."""
    given = list(dict.fromkeys(texts))
    names = FileNames((("", text) for text in given), taken=[("", name) for name in taken])
    return {text: names.name(text, number) for number, text in enumerate(given)}


def _hash(folder: str, name: str) -> int:
    return _native.xxh64(f"{folder}\0{fold_name(name)}".encode("utf-8", "surrogatepass"))
