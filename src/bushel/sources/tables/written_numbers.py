"""Numbers as people write them: with decimal commas, separators of thousands, signs of currencies and percent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

__all__ = ["STYLES", "Style", "has_sign", "is_number", "plain_number", "styles_of", "to_numbers"]

Style: TypeAlias = Literal["comma", "point"]  # what stands before decimals, where a cast alone does not read a number

_GROUPED = {
    "comma": r"^\s*[+-]?(\d+|\d{1,3}([.\x{a0}\x{202f}']\d{3})+)(,\d+)?\s*$",
    "point": r"^\s*[+-]?(\d+|\d{1,3}([,\x{a0}\x{202f}']\d{3})+)(\.\d+)?([eE][+-]?\d+)?\s*$",
}
STYLES: tuple[Style, ...] = ("comma", "point")
_SIGNED = r"^\s*[+-]?\s*([$€£¥]\s*[+-]?\d[\d.,]*|\d[\d.,]*\s*([$€£¥%]|EUR|USD))\s*$"
_LOOKED_AT_FIRST = 16  # values, which show of most text that it is no number
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def is_number(text: str) -> bool:
    """Whether text is a number, perhaps with a decimal comma."""
    return _NUMBER.fullmatch(text.strip()) is not None


def styles_of(array: Any, missing: Iterable[str]) -> tuple[Style, ...]:
    """The styles in which all values of a column of text are numbers; none where they are all missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = array.filter(pc.invert(pc.is_in(array, value_set=pa.array(list(missing), array.type))))
    array = array.drop_null()
    if not len(array):
        return ()
    found = tuple(style for style in STYLES if _all_match(array.slice(0, _LOOKED_AT_FIRST), _GROUPED[style]))
    return tuple(style for style in found if _all_match(array, _GROUPED[style]))


def has_sign(array: Any) -> bool:
    """Whether values of a column of text, which has some, are all amounts or percentages."""
    array = array.drop_null()
    return bool(len(array)) and _all_match(array.slice(0, _LOOKED_AT_FIRST), _SIGNED) and _all_match(array, _SIGNED)


def _all_match(array: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(array, pattern)).as_py())


def to_numbers(array: Any, style: Style) -> Any:
    """Text in a style as text that a cast reads."""
    import pyarrow.compute as pc

    groups = r"[.\x{a0}\x{202f}']" if style == "comma" else r"[,\x{a0}\x{202f}']"
    array = pc.replace_substring_regex(array, groups, "")
    return pc.replace_substring(array, ",", ".") if style == "comma" else array


def plain_number(text: str) -> str:
    """An amount or a percentage as the number alone: `$1,200.50` is 1200.50, and `5 %` is 5."""
    bare = re.sub(r"[\s$€£¥%\u00a0\u202f']|EUR|USD", "", text)
    if "," in bare and (bare.rfind(",") > bare.rfind(".")) and re.search(r",\d{1,2}$", bare):
        return bare.replace(".", "").replace(",", ".")
    return bare.replace(",", "")
