"""Pictures and sounds of records, as files for the browser."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bushel.errors import BushelError, MissingName, reason_of
from bushel.parallel import Ahead
from bushel.storage import status_of
from bushel.viewing.opened import Part
from bushel.viewing.showing import CannotShow, audio_of, thumbnail

__all__ = ["Wanted", "make_picture", "make_pictures", "make_sound"]

_SENT_AT_ONCE = 1 << 16  # bytes of pictures
_DECODED_AT_ONCE = 4  # images: each may be large
_DECODING = threading.Semaphore(_DECODED_AT_ONCE)


@dataclass(frozen=True)
class Wanted:
    """Which picture of a record: of one feature, as what it is taken for, and no larger than a side."""

    feature: str
    role: str
    side: int | None
    frame: int = 0


def make_picture(part: Part, row: int, wanted: Wanted) -> tuple[bytes, str]:
    """A picture of one feature of a record, and its media type."""
    place = part.place(row)
    status = status_of(part.paths[part.locate(row)[0]])
    identity = f"{place.shard}\0{status.size}\0{status.mtime_ns}\0{status.etag}\0{place.record}\0{wanted.feature}"
    with _DECODING:
        return thumbnail(lambda: _value(part, row, wanted.feature), wanted.role, wanted.side, wanted.frame, identity)


def make_pictures(part: Part, rows: Iterable[int], wanted: Wanted) -> Iterator[bytes]:
    """The same of many records: a line of JSON for each, as soon as it is ready."""

    def line(row: int) -> bytes:
        try:
            data, kind = make_picture(part, row, wanted)
        except Exception as error:  # data is untrusted: whatever it breaks is shown
            why = error.message if isinstance(error, BushelError) else reason_of(error)
            return msgspec.json.encode({"row": row, "error": why}) + b"\n"
        return b'{"row":%d,"picture":"data:%s;base64,%s"}\n' % (row, kind.encode(), b64encode(data))

    with Ahead(line, rows, threads=_DECODED_AT_ONCE, ahead=_DECODED_AT_ONCE) as lines:
        piece = b""
        for one in lines:
            piece += one
            if len(piece) >= _SENT_AT_ONCE:
                yield piece
                piece = b""
        yield piece


def make_sound(part: Part, row: int, feature: str) -> tuple[bytes, str]:
    """The sound of a feature, and its media type."""
    values = part.record(row).values
    rates = [int(value) for key, value in values.items() if key.endswith("rate") and isinstance(value, int)]
    rate = rates[0] if rates and 1000 <= rates[0] <= 384_000 else None
    return audio_of(_value(part, row, feature), rate)


def _value(part: Part, row: int, name: str) -> Any:
    record = part.record(row)
    if record.problem is not None:
        raise CannotShow(record.problem)
    if name not in record.values:
        raise MissingName("feature", name, record.values, where=f"record {row} of {part.name}")
    return record.values[name]
