"""What texts look like: numbers, text in another encoding than UTF-8, or text that was decoded with the wrong one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.data.columns import BytesColumn
from bushel.data.schema import BYTES_KIND
from bushel.records.files import Chunk
from bushel.records.scan import to_column

__all__ = ["TextLook", "TextLooks"]

SHOWN = 5
_FIRST = 512  # records of each file that are all looked at
_STEP = 64  # of the later ones, every so-many-th
_LONGEST = 2_000  # bytes of a text that are looked at

# 12, -1.5, .5e-3, 12,3 and 1.234,56 or 1,234.56; not 02.03.2024, 1.2.3 or 10:30.
_NUMBER = re.compile(
    rb"\s*[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+|\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d{1,3}(?:\.\d{3})+(?:,\d*)?)(?:[eE][-+]?\d+)?\s*%?\s*"
)
# UTF-8 that was taken for Latin-1 or Windows-1252 and encoded once more, and characters that were lost.
_TWICE = re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00e2[\u0080\u20ac][\u0080-\u2122]|\u00ef\u00bb\u00bf|\ufffd")
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"


@dataclass
class TextLook:
    """One feature. Places and examples are those of the first few."""

    looked_at: int = 0
    numbers: int = 0
    commas: int = 0  # numbers with a decimal comma
    misread: int = 0
    misread_places: list[Place] = field(default_factory=list)
    misread_as: list[tuple[str, str]] = field(default_factory=list)  # as it is, and as it was meant
    not_utf8: int = 0  # that are text all the same
    example: str = ""

    def merge(self, other: TextLook) -> None:
        """Add what was seen in another file."""
        for name in ("looked_at", "numbers", "commas", "misread", "not_utf8"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.misread_places += other.misread_places[: SHOWN - len(self.misread_places)]
        self.misread_as += other.misread_as[: SHOWN - len(self.misread_as)]
        self.example = self.example or other.example


class TextLooks:
    """Looks at some of the texts of each file."""

    def __init__(self, features: list[str]) -> None:
        self.looks = {name: TextLook() for name in features}

    def add(self, chunk: Chunk, file: FileFacts, bad: set[int]) -> None:
        """Look at some records of a chunk."""
        numbers = range(chunk.first, chunk.first + len(chunk.extents))
        rows = [n - chunk.first for n in numbers if (n < _FIRST or n % _STEP == 0) and n - chunk.first not in bad]
        if not rows or not self.looks:
            return
        wanted = [(name, False, BYTES_KIND) for name in self.looks]
        decoded, _, _ = _native.decode(chunk.memory, chunk.extents[rows].copy(), wanted, False, 1)
        for look, column in zip(self.looks.values(), decoded, strict=True):
            texts = to_column(column) if column["kind"] == BYTES_KIND else None
            for row, text in zip(rows, texts, strict=False) if isinstance(texts, BytesColumn) else ():
                _look_at(look, bytes(text[:_LONGEST]), (file.number, chunk.first + row))

    def merge(self, other: TextLooks) -> None:
        """Add what was seen in one more file."""
        for name, look in other.looks.items():
            self.looks.setdefault(name, TextLook()).merge(look)


def _look_at(look: TextLook, text: bytes, place: Place) -> None:
    if not text:
        return
    look.looked_at += 1
    if _NUMBER.fullmatch(text):
        look.numbers += 1
        look.commas += b"," in text
        return
    if text.isascii():
        return
    try:
        words = text.decode()
    except UnicodeDecodeError as error:
        is_cut = error.start > len(text) - 4 and len(text) == _LONGEST
        if not is_cut and len(text.translate(None, _PRINTABLE)) <= 0.3 * len(text):
            look.not_utf8 += 1
            look.example = look.example or text.decode("latin-1")[:60]
        return
    found = _TWICE.search(words)
    if found and (meant := _meant(words)) is not None:
        look.misread += 1
        if len(look.misread_places) < SHOWN:
            look.misread_places.append(place)
            around = slice(max(0, found.start() - 12), found.end() + 12)
            look.misread_as.append((words[around], meant))


def _meant(words: str) -> str | None:
    """The first words that were misread, as they were meant; None if they may be what they say."""
    if "\ufffd" in words:
        return "characters that are lost"
    for word in words.split():
        if _TWICE.search(word):
            for encoding in ("cp1252", "latin-1"):
                try:
                    return word.encode(encoding).decode()
                except UnicodeError:
                    continue
    return None
