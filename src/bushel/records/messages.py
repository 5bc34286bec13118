"""What records are that are not Examples: messages of other tools, images, text; and lists of examples with context."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bushel import _native
from bushel.errors import FileProblem
from bushel.records.files import open_file
from bushel.storage.file_kinds import kind_of_bytes, what_is

__all__ = ["ELWC", "not_examples", "parse_elwc", "refuse_others", "words_for"]

ELWC = "ExampleListWithContext messages"
_LOOKED_AT = 16  # records
_LENGTH_DELIMITED = 2


def not_examples(path: Path) -> str | None:
    """What the records of a file are, if they are not Examples or SequenceExamples; None if they are, or are none."""
    first = list(islice(_payloads(path), _LOOKED_AT))
    if not first:
        return None
    if any(_is_plain_message(data) for data in first):
        return None
    return words_for(first)


def words_for(records: list[bytes]) -> str:
    """What records that are not Examples are, in words."""
    if any(b"brain.Event:" in data for data in records):
        return "TensorBoard events"
    if all(parse_elwc(data) is not None for data in records):
        return ELWC
    if all(map(_is_prediction_log, records)):
        return "serving logs (PredictionLog)"
    kinds = {kind_of_bytes(data) for data in records}
    kind = kinds.pop()
    if not kinds and kind is not None:
        return f"files: {kind.what} each"
    return "text" if all(what_is(data[:512]) in ("plain text", "JSON text") for data in records) else "other bytes"


def refuse_others(path: Path) -> None:
    """Raise for a file whose records are not Examples, in the same words everywhere."""
    if (what := not_examples(path)) is not None:
        help = [f"To print them: bushel cat {path}"]
        if what == ELWC:
            help = [f"To make Examples of them, with the context and the list of each: bushel build {path} OUT"]
        raise FileProblem(path, f"its records are not Examples but {what}", help=help)


def parse_elwc(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The features of the context and of each example of an ExampleListWithContext; None if it is none."""
    context: dict[str, Any] = {}
    examples: list[dict[str, Any]] = []
    fields = _fields(data)
    if not fields:
        return None
    for number, kind, value in fields:
        if number not in (1, 2) or kind != _LENGTH_DELIMITED or not _is_example(value):
            return None
        features: dict[str, Any] = _native.parse(value)[0]  # type: ignore[index]
        if number == 1:
            examples.append(features)
        else:
            context = features
    return (context, examples) if examples or context else None


def _payloads(path: Path) -> Iterator[bytes]:
    for chunk in open_file(path).chunks(on_fault=lambda _: None):
        for row in range(len(chunk.extents)):
            yield bytes(chunk.payload(row))


def _is_plain_message(data: bytes) -> bool:
    """Whether it is an Example or SequenceExample: it holds features, or nothing at all."""
    if _is_example(data):
        return True
    message: Any = _native.parse(data)
    if message is None:
        return False
    features, lists = message
    return bool(features or lists) and parse_elwc(data) is None


def _fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """Number, wire type and bytes of each field of a message; none if it is not one."""
    found: list[tuple[int, int, bytes]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            begin = at
            _, at = _varint(data, at)
        elif kind in (1, 5):
            begin, at = at, at + (8 if kind == 1 else 4)
        elif kind == _LENGTH_DELIMITED:
            size, begin = _varint(data, at)
            at = begin + size
        else:
            return []
        if at > len(data) or at < begin or not tag >> 3:
            return []
        found.append((tag >> 3, kind, data[begin:at]))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, len(data) + 1


def _is_example(data: bytes) -> bool:
    """Whether these are the bytes of an Example: one field of features, each with a name and a list."""
    outer = _fields(data)
    if not data:
        return True
    return len(outer) == 1 and outer[0][:2] == (1, _LENGTH_DELIMITED) and _are_features(outer[0][2])


def _are_features(data: bytes) -> bool:
    entries = _fields(data)
    if data and not entries:
        return False
    for number, kind, entry in entries:
        inner = {field[0]: field for field in _fields(entry)}
        if number != 1 or kind != _LENGTH_DELIMITED or not set(inner) <= {1, 2} or 1 not in inner:
            return False
        lists = _fields(inner[2][2]) if 2 in inner else []
        if any(field not in (1, 2, 3) or wire != _LENGTH_DELIMITED for field, wire, _ in lists):
            return False
    return True


def _is_prediction_log(data: bytes) -> bool:
    numbers = {number for number, _, _ in _fields(data)}
    return 1 in numbers and bool(numbers & {2, 3, 4, 5, 6}) and numbers <= set(range(1, 7))
