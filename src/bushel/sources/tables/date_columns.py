"""Columns of dates: the notation that all of their values have, and text or numbers as timestamps of Arrow."""

from __future__ import annotations

from typing import Any

from bushel.data.dates import UNITS, parse_date
from bushel.sources.tables.arrow import BadRows

__all__ = ["notations_of", "texts_to_dates", "to_dates"]


def notations_of(array: Any, known: set[str]) -> set[str]:
    """Those of some notations in which all texts are dates."""
    if "ymd" in known and _iso(array) is not None:
        return {"ymd"}
    left = set(known)
    for text in array.to_pylist() if left else ():
        left = {name for name in left if parse_date(text, name) is not None}
        if not left:
            break
    return left


def texts_to_dates(array: Any, notation: str, bad: BadRows) -> Any:
    """Text as timestamps; rows that do not parse are missing from the result, and added to `bad`."""
    import pyarrow as pa

    if notation == "ymd" and (fast := _iso(array)) is not None:
        return fast
    packed = array.dictionary_encode()
    texts = packed.dictionary.to_pylist()
    stamps = [None if text is None else parse_date(text, notation) for text in texts]
    wrong = {at for at, stamp in enumerate(stamps) if stamp is None and texts[at] is not None}
    if wrong:
        for row, at in enumerate(packed.indices.to_pylist()):
            if at in wrong:
                bad[row] = f"{texts[at][:60]!r} is not a date like the others"
    return pa.array(stamps, pa.int64()).cast(pa.timestamp("us")).take(packed.indices)


def _iso(array: Any) -> Any | None:
    """The same for dates as ISO 8601 has them, faster; None if some are not."""
    import pyarrow as pa

    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return array.cast(kind).cast(pa.int64()).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            continue
    return None


def to_dates(array: Any, dtype: str, bad: BadRows) -> Any:
    """Text or numbers as timestamps, as a type such as `date:dmy` or `date:ms` says."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    form = dtype.partition(":")[2]
    if not (t.is_integer(array.type) or t.is_floating(array.type)):
        return array if t.is_temporal(array.type) else texts_to_dates(array.cast(pa.string()), form or "ymd", bad)
    unit = form
    scaled = pc.multiply(array.cast(pa.float64() if pa.types.is_floating(array.type) else pa.int64()), UNITS[unit])
    return scaled.cast(pa.int64(), safe=False).cast(pa.timestamp("us"))
