"""Dates as people write them: in which notation, and what each is in microseconds since 1970, UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "DATE_TYPES",
    "NOTATIONS",
    "UNITS",
    "find_notations",
    "is_date_type",
    "parse_date",
    "to_microseconds",
    "written_date",
]

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # of numbers since 1970, in microseconds
_CLOCK = (
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
_DAY, _MONTH, _YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4}|\d{2})"
_NAMED, _FULL_YEAR = r"(?P<month>[A-Za-z]{3,9})\.?", r"(?P<year>\d{4})"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?,? )?"
# In the order in which they are preferred.
NOTATIONS = {
    "ymd": re.compile(rf"{_FULL_YEAR}(?P<between>[-/.]){_MONTH}(?P=between){_DAY}{_CLOCK}"),
    "dmy": re.compile(rf"{_DAY}(?P<between>[-/.]){_MONTH}(?P=between){_YEAR}{_CLOCK}"),
    "mdy": re.compile(rf"{_MONTH}(?P<between>[-/]){_DAY}(?P=between){_YEAR}{_CLOCK}"),
    "day month year": re.compile(rf"{_WEEKDAY}{_DAY}[ -]{_NAMED}[ ,-]+{_YEAR}{_CLOCK}"),
    "month day year": re.compile(rf"{_WEEKDAY}{_NAMED} {_DAY},? {_FULL_YEAR}{_CLOCK}"),
}
DATE_TYPES = ("date", *(f"date:{form}" for form in ("dmy", "mdy", "ymd", *UNITS)))
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def is_date_type(dtype: str) -> bool:
    """Whether a requested type is that of dates."""
    return dtype.partition(":")[0] == "date"


def find_notations(texts: Iterable[str]) -> dict[str, int]:
    """How many texts are dates in each notation; those without any are left out."""
    found: dict[str, int] = {}
    for text in texts:
        for name in NOTATIONS:
            if parse_date(text, name) is not None:
                found[name] = found.get(name, 0) + 1
    return found


@lru_cache(maxsize=4096)
def parse_date(text: str, notation: str) -> int | None:
    """Microseconds since 1970 of a date; a time without a zone is in UTC. None if it is not a date in this notation."""
    match = NOTATIONS[notation].fullmatch(text.strip())
    if match is None:
        return None
    part = match.groupdict()
    year, month = int(part["year"]), _month(part["month"])
    if len(part["year"]) == 2:
        if part.get("between") == ".":  # 3.11.12 is rather a version
            return None
        year += 1900 if year >= 69 else 2000
    hour = int(part["hour"] or 0)
    if part["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (part["half"] in "pP")
    micro = int((part["part"] or "0").ljust(6, "0")[:6])
    try:
        when = datetime(
            year, month, int(part["day"]), hour, int(part["minute"] or 0), int(part["second"] or 0), micro, UTC
        )
        return (when - _offset(part["zone"]) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _month(text: str) -> int:
    """The number of a month; 0 if there is none of that name."""
    if text.isdecimal():
        return int(text)
    return next((at for at, name in enumerate(_MONTHS, 1) if name.startswith(text.lower())), 0)


def _offset(zone: str | None) -> timedelta:
    if not zone or zone[0] not in "+-":
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone[0] == "-" else offset


def to_microseconds(value: Any) -> Any:
    """A date as a sample may hold it (text, a date of Python or NumPy) as it is stored; anything else as it is.

    Text that may have the day or the month first is not a date here: one value does not say which.
    """
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    if isinstance(value, str):
        found = {stamp for name in NOTATIONS if (stamp := parse_date(value, name)) is not None}
        return found.pop() if len(found) == 1 else value
    return value


def written_date(stamp: int) -> str:
    """Microseconds since 1970 as people write them: without a time if it is midnight."""
    text = str(np.datetime64(int(stamp), "us")).removesuffix(".000000")
    return text.removesuffix("T00:00:00")
