"""What the page asks for, and the answers: plain values, whatever serves them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from bushel import __version__
from bushel.errors import BushelError, MissingName
from bushel.records.files import FOOTER, HEADER
from bushel.records.index import load_keys
from bushel.records.survey import tf_description
from bushel.storage import status_of
from bushel.viewing.opened import Opened, Part, Record
from bushel.viewing.roles import guess_roles, parse_roles
from bushel.viewing.search import Query, Search
from bushel.viewing.showing import CannotShow, audio_of, boxes_of, shown_value, thumbnail
from bushel.viewing.statistics import Summary, summarise

__all__ = ["Viewer"]

Given: TypeAlias = Mapping[str, str]

MOST_AT_ONCE = 200  # records of one page
_SEARCHES = 8  # that are kept
_LOOKED_AT = 2_000  # records of each split, for the overview
_GUESSED_FROM = 3  # records
_HEX_BYTES = 4096
_DECODING = threading.Semaphore(4)  # images at a time: each may be large


class Viewer:
    """Everything that was opened, and what was found out about it since."""

    def __init__(self, opened: Sequence[Opened]) -> None:
        self.opened = list(opened)
        self._searches: OrderedDict[tuple[int, str, Query], Search] = OrderedDict()
        self._summaries: dict[tuple[int, str], Summary] = {}
        self._lock = threading.Lock()
        self.answers: dict[str, Callable[[Given], Any]] = {
            "overview": self.overview,
            "statistics": self.statistics,
            "records": self.records,
            "record": self.record,
            "image": self.image,
            "audio": self.audio,
            "hex": self.hex,
        }
        self.changes: dict[str, Callable[[dict[str, Any]], Any]] = {}

    def start(self) -> Viewer:
        """Find records that no manifest counts, in the background."""
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        for opened in self.opened:
            opened.count()

    def _dataset(self, given: Given) -> tuple[int, Opened]:
        number = _whole(given, "d", 0)
        if number >= len(self.opened):
            raise MissingName("dataset", str(number), [str(n) for n in range(len(self.opened))], where="this page")
        return number, self.opened[number]

    def _part(self, given: Given) -> tuple[int, Opened, Part]:
        number, opened = self._dataset(given)
        return number, opened, opened.part(given.get("split"))

    def _roles(self, opened: Opened, given: Given) -> dict[str, str]:
        return parse_roles(given.get("roles", ""), _guessed(opened))

    def overview(self, _: Given) -> dict[str, Any]:
        """What there is: datasets, their splits and features; no record is counted for it."""
        return {"version": __version__, "datasets": [self._described(opened) for opened in self.opened]}

    def _described(self, opened: Opened) -> dict[str, Any]:
        roles, manifest = _guessed(opened), opened.manifest
        return {
            "name": opened.name,
            "where": opened.where,
            "label": opened.label,
            "classes": list(opened.classes),
            "has_manifest": manifest is not None,
            "refused": manifest.refused if manifest else 0,
            "splits": [_split(part, opened) for part in opened.parts.values()],
            "features": [
                {"name": name, "type": _type(opened, name), "role": role, "required": _required(opened, name)}
                for name, role in roles.items()
            ],
            "problems": [problem for part in opened.parts.values() for problem in part.problems],
            "code": {
                "python": f"import bushel\n\ndata = bushel.open({opened.where!r})",
                "tensorflow": tf_description(opened.schema),
            },
        }

    def statistics(self, given: Given) -> dict[str, Any]:
        """Numbers of one split: of some records, or of all of them if asked for."""
        number, opened, part = self._part(given)
        whole = given.get("all") == "1"
        with self._lock:
            known = self._summaries.get((number, part.name))
        if known is None or (whole and known.records + known.damaged < len(part)):
            known = summarise(part, None if whole else _LOOKED_AT)
            if part.is_whole:
                with self._lock:
                    self._summaries[number, part.name] = known
        found = known.to_json()
        found["classes"] = _class_counts(opened, part, known)
        found["of"] = len(part)
        return found

    def records(self, given: Given) -> dict[str, Any]:
        """A page of records, as the address asks for them."""
        number, opened, part = self._part(given)
        start, count = _whole(given, "start", 0), min(_whole(given, "count", 60), MOST_AT_ONCE)
        query = Query(
            given.get("where", "").strip(),
            given.get("text", "").strip(),
            given.get("sort", ""),
            given.get("desc") == "1",
            given.get("list", ""),
        )
        roles = self._roles(opened, given)
        facts: dict[str, Any] = {"start": start, "of": len(part), "is_whole": part.is_whole}
        if query.is_empty and part.rows is None:
            end = len(part)
            rows = (
                range(end - 1 - start, max(-1, end - 1 - start - count), -1)
                if query.descending
                else range(start, min(start + count, end))
            )
            facts |= {"total": end, "is_done": True}
        else:
            search = self._search(number, part, query, roles)
            search.wait(2.0, start + count)
            found = search.rows
            rows = found[start : start + count].tolist()
            facts |= {"total": len(found), "is_done": search.is_done, "seen": search.seen}
            facts |= {"problem": search.problem, "note": search.note}
        facts["records"] = [self._tile(opened, record, roles) for record in part.records(rows)]
        return facts

    def _search(self, number: int, part: Part, query: Query, roles: Mapping[str, str]) -> Search:
        key = (number, part.name, query)
        with self._lock:
            found = self._searches.get(key)
            if found is None or (found.is_done and found.seen < len(part) and not part.is_whole):
                image = next((name for name, role in roles.items() if role == "image"), None)
                found = Search(part, query, self.chosen(number, part, query.chosen), image).start()
            self._searches[key] = found
            self._searches.move_to_end(key)
            while len(self._searches) > _SEARCHES:
                self._searches.popitem(last=False)[1].stop()
            return found

    def chosen(self, number: int, part: Part, name: str) -> Sequence[int] | None:
        """The records of a list by its name; None if no list is asked for."""
        if not name:
            return None
        raise MissingName("list", name, [], where=f"{part.name} of {self.opened[number].name}")

    def _tile(self, opened: Opened, record: Record, roles: Mapping[str, str]) -> dict[str, Any]:
        fields = {
            name: shown_value(value, roles.get(name, "bytes"), names=_names_for(opened, name))
            for name, value in record.values.items()
        }
        return {
            "row": record.row,
            "problem": record.problem,
            "bytes": len(record.payload),
            "fields": fields,
            "boxes": boxes_of(record.values, roles),
            "preview": record.payload[:48].hex(" ") if not record.values and not record.problem else "",
        }

    def record(self, given: Given) -> dict[str, Any]:
        """One record with everything that is known of it."""
        _, opened, part = self._part(given)
        row = _whole(given, "row", 0)
        roles = self._roles(opened, given)
        place = part.place(row)
        record = part.record(row)
        known = next(iter(record.values.items()), None)
        fields = [
            {
                "name": name,
                "role": roles.get(name, "bytes"),
                "type": _type(opened, name),
                **shown_value(value, roles.get(name, "bytes"), is_short=False, names=_names_for(opened, name)),
            }
            for name, value in record.values.items()
        ]
        missing = [name for name in part.schema.features if name not in record.values] if known else []
        return {
            "row": row,
            "of": len(part),
            "split": part.name,
            "problem": record.problem,
            "fields": fields,
            "missing": missing,
            "boxes": boxes_of(record.values, roles),
            "key": self.key_of(part, row),
            "place": {
                "shard": place.shard,
                "record": place.record,
                "byte": place.byte,
                "bytes": place.bytes,
                "checksum": record.framed[-FOOTER:][::-1].hex() if len(record.framed) > HEADER + FOOTER else "",
                "sha256": place.sha256,
            },
            "code": _code_of(opened, part, row),
        }

    def key_of(self, part: Part, row: int) -> str:
        """The key of a record, if its build kept it."""
        number, record = part.locate(row)
        try:
            keys = load_keys(part.paths[number])
            return keys[record].decode("utf-8", "backslashreplace") if keys is not None and record < len(keys) else ""
        except (BushelError, OSError):
            return ""

    def image(self, given: Given) -> tuple[bytes, str]:
        """A picture of one feature of a record."""
        _, opened, part = self._part(given)
        row, name = _whole(given, "row", 0), given.get("feature", "")
        side = None if given.get("side") == "full" else min(2048, max(16, _whole(given, "side", 224)))
        role = given.get("role") or self._roles(opened, given).get(name, "image")
        place = part.place(row)
        status = status_of(part.paths[part.locate(row)[0]])
        identity = f"{place.shard}\0{status.size}\0{status.mtime_ns}\0{status.etag}\0{place.record}\0{name}"
        with _DECODING:
            return thumbnail(lambda: _value(part, row, name), role, side, _whole(given, "frame", 0), identity)

    def audio(self, given: Given) -> tuple[bytes, str]:
        """The sound of a feature, as a file."""
        _, _, part = self._part(given)
        row, name = _whole(given, "row", 0), given.get("feature", "")
        values = part.record(row).values
        rates = [int(value) for key, value in values.items() if key.endswith("rate") and isinstance(value, int)]
        rate = rates[0] if rates and 1000 <= rates[0] <= 384_000 else None
        return audio_of(_value(part, row, name), rate)

    def hex(self, given: Given) -> dict[str, Any]:
        """Some raw bytes of a record."""
        _, _, part = self._part(given)
        record, begin = part.record(_whole(given, "row", 0)), _whole(given, "begin", 0)
        data = record.framed[begin : begin + _HEX_BYTES]
        return {"begin": begin, "hex": data.hex(), "of": len(record.framed)}


def _whole(given: Given, name: str, default: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name} must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)


def _value(part: Part, row: int, name: str) -> Any:
    record = part.record(row)
    if record.problem is not None:
        raise CannotShow(record.problem)
    if name not in record.values:
        raise MissingName("feature", name, record.values, where=f"record {row} of {part.name}")
    return record.values[name]


@lru_cache(maxsize=64)
def _guessed(opened: Opened) -> dict[str, str]:
    """The roles of features, from the first records."""
    part = next(iter(opened.parts.values()))
    try:
        samples = part.first_values(_GUESSED_FROM)
    except (BushelError, OSError):
        samples = []
    return guess_roles(part.schema, samples, opened.label)


def _names_for(opened: Opened, name: str) -> Sequence[str]:
    return opened.classes if name == opened.label else ()


def _type(opened: Opened, name: str) -> str:
    feature = opened.schema.features.get(name)
    return feature.describe() if feature is not None else "not in the schema"


def _required(opened: Opened, name: str) -> bool:
    feature = opened.schema.features.get(name)
    return feature is not None and feature.required


def _split(part: Part, opened: Opened) -> dict[str, Any]:
    told = opened.manifest.splits.get(part.name) if opened.manifest else None
    return {
        "name": part.name,
        "shards": len(part.paths),
        "records": len(part) if part.rows is None else len(part.rows),
        "bytes": part.size,
        "is_whole": part.is_whole,
        "classes": dict(told.label_counts) if told else {},
    }


def _class_counts(opened: Opened, part: Part, summary: Summary) -> dict[str, int]:
    """How many records each class has: of all records if the manifest says, otherwise of those looked at."""
    told = opened.manifest.splits.get(part.name) if opened.manifest else None
    if told and told.label_counts:
        return dict(told.label_counts)
    role = {name for name, role in _guessed(opened).items() if role == "label"}
    name = opened.label if opened.label in summary.features else next(iter(sorted(role)), "")
    feature = summary.features.get(name)
    if feature is None or not feature.is_open or len(feature.counts) > 500:
        return {}
    names = opened.classes if name == opened.label else ()
    return {
        names[int(code)] if code.isdecimal() and int(code) < len(names) else code: count
        for code, count in feature.counts.most_common()
    }


def _code_of(opened: Opened, part: Part, row: int) -> dict[str, str]:
    where, split = opened.where, part.name
    command = f"bushel cat {where} --record {split}:{row}" if opened.manifest else f"bushel view {where}"
    return {"python": f"bushel.open({where!r})[{split!r}][{row}]", "command": command}
