"""Arrow arrays to the types that were asked for; values that do not fit are told one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bushel.sources.arrow import BadRows

__all__ = ["cast_array", "cast_text"]


def cast_array(array: Any, dtype: str, bad: BadRows) -> Any:
    """An array as text or numbers. From numbers to numbers nothing is done: the writer casts, and checks."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        array = array.dictionary_decode()
    if t.is_nested(array.type):
        return array  # numbers in lists are cast by the writer, too
    if dtype == "str":
        return array if t.is_string(array.type) or t.is_large_string(array.type) else array.cast(pa.string())
    if dtype == "bytes":
        return array if t.is_binary(array.type) else array.cast(pa.string()).cast(pa.binary())
    if t.is_string(array.type) or t.is_large_string(array.type):
        return cast_text(array, pa.float64() if dtype.startswith("float") else pa.int64(), bad)
    return array.cast(pa.int64()) if t.is_temporal(array.type) else array


def cast_text(array: Any, kind: Any, bad: BadRows, *, missing: Sequence[str] = ("",)) -> Any:
    """Text as another type; rows whose text is no such value are missing from the result, and in `bad`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type == kind:
        return array
    is_nothing = pc.is_in(array, value_set=pa.array(missing, array.type))
    array = pc.if_else(is_nothing, pa.scalar(None, array.type), array)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        pass
    values: list[Any] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            values.append(None if text is None else pa.scalar(text.strip()).cast(kind).as_py())
        except pa.ArrowInvalid:
            values.append(None)
            bad[row] = _why(text, kind)
    return pa.array(values, kind)


def _why(text: str, kind: Any) -> str:
    import pyarrow.types as t

    if t.is_integer(kind) and text.strip().lstrip("+-").isdigit():
        return f"{text.strip()} does not fit {kind}"
    return f"{text[:60]!r} is not {'an integer' if t.is_integer(kind) else 'a number' if t.is_floating(kind) else kind}"
