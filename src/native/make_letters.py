"""Write `letters_table.inc`: which characters belong to words, and which are whitespace, of one version of Unicode.

The table is part of the sources, so that bushel cuts the same text into the same words under every Python. Run it again
only to take over a newer Unicode: datasets made before keep the ids that they have.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path


def is_word(character: str) -> bool:
    """Letters, marks and numbers of every script, and the underscore: `\\w` of Python's `re`, and combining marks."""
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def ranges(belongs: Callable[[str], bool]) -> list[tuple[int, int]]:
    """First and last of every run of characters that belong."""
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if not belongs(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def table(name: str, belongs: Callable[[str], bool]) -> str:
    """The ranges as a C++ array, several to a line."""
    cells = [f"{{{first:#x}, {last:#x}}}," for first, last in ranges(belongs)]
    lines = [" ".join(cells[at : at + 5]) for at in range(0, len(cells), 5)]
    return f"inline constexpr CodeRange {name}[] = {{\n    " + "\n    ".join(lines) + "\n};\n"


if __name__ == "__main__":
    text = f"// Unicode {unicodedata.unidata_version}, written by make_letters.py.\n"
    text += table("kWordRanges", is_word) + table("kSpaceRanges", str.isspace)
    Path(__file__).with_name("letters_table.inc").write_text(text)
