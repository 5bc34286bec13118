"""What the page asks for, and the answers: plain values, whatever serves them."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from bushel import __version__
from bushel.data.marks import Mark, add_mark, last_marks
from bushel.errors import BushelError, FileProblem, MissingName, reason_of
from bushel.parallel import Ahead
from bushel.records.files import FOOTER, HEADER
from bushel.records.index import load_keys, sha256_of
from bushel.records.survey import tf_description
from bushel.storage import AnyPath, as_path, status_of
from bushel.viewing.findings import CheckJob, DuplicateJob, SharedJob, content_of, quarantined
from bushel.viewing.opened import Opened, Part, Record, open_all
from bushel.viewing.roles import guess_roles, parse_roles
from bushel.viewing.runs import LoadedRun, differing_options, is_run, load_run
from bushel.viewing.search import Query, Search
from bushel.viewing.showing import (
    CannotShow,
    audio_of,
    boxes_of,
    detokeniser_of,
    encoded,
    picture_of,
    points_of,
    shown_value,
    thumbnail,
)
from bushel.viewing.statistics import FeatureSummary, Summary, drift, summarise

__all__ = ["Viewer", "class_counts", "open_viewer"]

Given: TypeAlias = Mapping[str, str]

MOST_AT_ONCE = 200  # records of one page
_SEARCHES = 8  # that are kept
_LOOKED_AT = 2_000  # records of each split, for the overview
_GUESSED_FROM = 3  # records
_HEX_BYTES = 4096
_CHECKED_AT_ONCE = 64 << 20  # bytes of a dataset that is checked without being asked
_SENT_AT_ONCE = 1 << 16  # bytes of pictures
_DECODED_AT_ONCE = 4  # images: each may be large
_DECODING = threading.Semaphore(_DECODED_AT_ONCE)


def open_viewer(paths: Sequence[AnyPath], *, marks: AnyPath | None = None) -> Viewer:
    """Open datasets and runs; the data of runs is opened too, where it is still there."""
    runs = [load_run(path) for path in paths if is_run(path)]
    data = [path for path in paths if not is_run(path)]
    known = {str(as_path(path).absolute()) for path in data}
    for told in dict.fromkeys(str(path) for run in runs for path in run.facts.get("data", [])):
        if str(as_path(told).absolute()) not in known and as_path(told).exists():
            data.append(told)
    if marks is not None and any(as_path(marks).absolute().is_relative_to(as_path(path).absolute()) for path in data):
        raise FileProblem(marks, "is inside the dataset, which is never changed; keep marks elsewhere")
    return Viewer(open_all(data) if data else [], runs=runs, marks=marks)


class Viewer:
    """Everything that was opened, and what was found out about it since."""

    def __init__(
        self, opened: Sequence[Opened], *, runs: Sequence[LoadedRun] = (), marks: AnyPath | None = None
    ) -> None:
        self.opened = list(opened)
        self.runs = list(runs)
        self.marks_path = None if marks is None else Path(marks)
        self._marks = _marks_in(self.marks_path)
        self._checks = [CheckJob(one) for one in self.opened]
        self._duplicates = [DuplicateJob(one, lambda one=one: _guessed(one)) for one in self.opened]  # type: ignore[misc]
        self._shared_jobs: dict[Any, SharedJob] = {}
        self._fed: OrderedDict[str, Any] = OrderedDict()
        self._searches: OrderedDict[tuple[int, str, Query], Search] = OrderedDict()
        self._summaries: dict[tuple[int, str], Summary] = {}
        self._digests: dict[str, str] = {}
        self._lock = threading.Lock()
        self.answers: dict[str, Callable[[Given], Any]] = {
            "overview": self.overview,
            "statistics": self.statistics,
            "records": self.records,
            "record": self.record,
            "image": self.image,
            "pictures": self.pictures,
            "audio": self.audio,
            "hex": self.hex,
            "findings": self.findings,
            "duplicates": self.duplicates,
            "quarantine": self.quarantine,
            "compare": self.compare,
            "batches": self.batches,
            "fed": self.fed,
            "runs": self.show_runs,
            "run": self.run,
            "marks": self.marks,
        }
        self.changes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "check": self.start_check,
            "duplicates": self.start_duplicates,
            "shared": self.start_shared,
            "marks": self.mark,
        }

    def start(self) -> Viewer:
        """Find records that no manifest counts, in the background."""
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        for opened, job in zip(self.opened, self._checks, strict=True):
            opened.count()
            if sum(part.size for part in opened.parts.values()) <= _CHECKED_AT_ONCE:
                job.start()

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
        return {
            "version": __version__,
            "datasets": [self._described(opened) for opened in self.opened],
            "runs": [run.name for run in self.runs],
            "marks": str(self.marks_path) if self.marks_path else "",
        }

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
        found["classes"] = class_counts(opened, part, known)
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
        facts["records"] = [self._tile(opened, part, record, roles) for record in part.records(rows)]
        if self.runs and given.get("run", "0").isdecimal():
            answers = self._answers_for(int(given.get("run", "0")), part, list(rows))
            for record in facts["records"]:
                record["predicted"] = answers.get(record["row"])
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
        kind, _, rest = name.partition(":")
        numbers = [int(text) for text in rest.split(":") if text.isdecimal()]
        if kind == "finding" and numbers:
            return self._checks[number].places(numbers[0]).get(part.name, [])
        if kind == "duplicates":
            groups = self._duplicates[number].groups
            picked = groups if not numbers else groups[numbers[0] : numbers[0] + 1]
            return [row for group in picked for split, row in group if split == part.name]
        if kind == "marked":
            return [row for row in self._marked_rows(number, part) if not rest or self._mark_at(part, row) == rest]
        if kind == "run" and numbers and numbers[0] < len(self.runs):
            return self._predicted_rows(numbers[0], part, numbers[1:])
        raise MissingName("list", name, [], where=f"{part.name} of {self.opened[number].name}")

    def _predicted_rows(self, number: int, part: Part, cell: Sequence[int]) -> list[int]:
        """Records that judged a run, those with the largest loss first; of one cell of its confusions, if asked for."""
        found = self.runs[number].predicted
        if found is None:
            return []
        order = np.argsort(-found.columns["loss"], kind="stable")
        if len(cell) == 2 and "predicted" in found.columns:
            label, predicted = found.columns["label"][order], found.columns["predicted"][order]
            order = order[(label == cell[0]) & (predicted == cell[1])]
        elif len(cell) == 1 and "predicted" in found.columns:  # all mistakes
            order = order[found.columns["label"][order] != found.columns["predicted"][order]]
        firsts = part.starts_of(found.shards)
        shards, records = found.columns["shard"][order].tolist(), found.columns["record"][order].tolist()
        rows = [firsts[shard] + record for shard, record in zip(shards, records, strict=True) if shard in firsts]
        return [row for row in rows if row < len(part)]

    def _answers_for(self, number: int, part: Part, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        """What a run predicted for records, by their numbers."""
        found = self.runs[number].predicted if number < len(self.runs) else None
        if found is None:
            return {}
        firsts = part.starts_of(found.shards)
        known = np.array([firsts.get(shard, -1) for shard in range(len(found.shards))], np.int64)
        starts = known[found.columns["shard"]]
        places = np.where(starts >= 0, starts + found.columns["record"], -1)
        classes, answers = self.runs[number].classes, {}
        for at in np.flatnonzero(np.isin(places, np.asarray(rows, np.int64))).tolist():
            said = {name: found.columns[name][at].item() for name in found.columns if name not in ("shard", "record")}
            for name in ("label", "predicted"):
                if classes and name in said and 0 <= int(said[name]) < len(classes):
                    said[name] = classes[int(said[name])]
            answers[int(places[at])] = said
        return answers

    def findings(self, given: Given) -> dict[str, Any]:
        """Findings of the check, and how far it is."""
        return self._checks[self._dataset(given)[0]].to_json()

    def start_check(self, given: dict[str, Any]) -> dict[str, Any]:
        """Check a dataset in the background."""
        job = self._checks[self._dataset(_texts(given))[0]]
        job.start()
        return job.to_json()

    def duplicates(self, given: Given) -> dict[str, Any]:
        """Records with the same content, and how far the search for them is."""
        return self._duplicates[self._dataset(given)[0]].to_json()

    def start_duplicates(self, given: dict[str, Any]) -> dict[str, Any]:
        """Look for duplicates in the background."""
        job = self._duplicates[self._dataset(_texts(given))[0]]
        job.start()
        return job.to_json()

    def quarantine(self, given: Given) -> dict[str, Any]:
        """What the build refused."""
        _, opened = self._dataset(given)
        return quarantined(opened, _whole(given, "start", 0), min(_whole(given, "count", 100), MOST_AT_ONCE))

    def compare(self, given: Given) -> dict[str, Any]:
        """Two splits, of one dataset or of two, feature by feature."""
        sides = self._sides(given)
        one, other = (self._summary(number, part) for number, _, part in sides)
        names = [*one.features, *(name for name in other.features if name not in one.features)]
        rows = [_compared(name, one.features.get(name), other.features.get(name)) for name in names]
        classes = [
            class_counts(opened, part, found) for (_, opened, part), found in zip(sides, (one, other), strict=True)
        ]
        return {
            "sides": [
                {"dataset": opened.name, "split": part.name, "records": found.records, "of": len(part)}
                for (_, opened, part), found in zip(sides, (one, other), strict=True)
            ],
            "features": sorted(rows, key=lambda row: -row["drift"]),
            "classes": [
                [name, classes[0].get(name, 0), classes[1].get(name, 0)] for name in {**classes[0], **classes[1]}
            ],
            "shared": self._shared(given).to_json(),
        }

    def _shared(self, given: Given) -> SharedJob:
        """The search for contents that are in both sides of a comparison."""
        sides = self._sides(given)
        key = tuple((number, part.name) for number, _, part in sides)
        if key not in self._shared_jobs:
            names = [content_of(opened, _guessed(opened)) for _, opened, _ in sides]
            common = [name for name in names[0] if name in names[1]]
            self._shared_jobs[key] = SharedJob([part for _, _, part in sides], common)
        return self._shared_jobs[key]

    def start_shared(self, given: dict[str, Any]) -> dict[str, Any]:
        """Look for contents that are in both sides of a comparison, in the background."""
        job = self._shared(_texts(given))
        job.start()
        return job.to_json()

    def _sides(self, given: Given) -> list[tuple[int, Opened, Part]]:
        return [
            self._part({"d": given.get(d, "0"), "split": given.get(split, "")})
            for d, split in (("d", "split"), ("e", "other"))
        ]

    def _summary(self, number: int, part: Part) -> Summary:
        with self._lock:
            known = self._summaries.get((number, part.name))
        if known is None:
            known = summarise(part, _LOOKED_AT)
            if part.is_whole:
                with self._lock:
                    self._summaries[number, part.name] = known
        return known

    def batches(self, given: Given) -> dict[str, Any]:
        """Some images as a model is fed them; `fed` has the pictures."""
        from bushel.viewing.fed import LIGHT, RANGES, feed_images

        number, opened, part = self._part(given)
        images = [name for name, role in self._roles(opened, given).items() if role == "image"]
        if not images:
            raise CannotShow("there are no images here, and only these are shown as a model sees them")
        told = {name: given[name] for name in ("size", "augment", "range", "seed", "start") if name in given}
        if self.runs and not {"size", "augment", "range"} & set(told):
            told = {**_options_of(self.runs[0]), **told}
        found = feed_images(part, images[0], told)
        name = f"{number}:{part.name}:{sorted(told.items())}"
        with self._lock:
            self._fed[name] = found
            while len(self._fed) > 4:
                self._fed.popitem(last=False)
        return {
            **found.to_json(),
            "id": name,
            "options": {"size": "96", "augment": LIGHT, "range": "0..1", "seed": "0", **told},
            "ranges": list(RANGES),
        }

    def fed(self, given: Given) -> tuple[bytes, str]:
        """A picture of `batches`."""
        found = self._fed.get(given.get("id", ""))
        at = _whole(given, "at", 0)
        if found is None or at >= len(found.rows):
            raise MissingName("picture", given.get("id", ""), [], where="this page")
        pixels = (found.plain if given.get("form") == "plain" else found.changed)[at]
        return encoded(picture_of(pixels, "image"), None)

    def show_runs(self, _: Given) -> dict[str, Any]:
        """All runs, and the options in which they differ."""
        return {"runs": [run.to_json() for run in self.runs], "options": differing_options(self.runs)}

    def run(self, given: Given) -> dict[str, Any]:
        """One run: its confusions, and where its records are."""
        number = _whole(given, "run", 0)
        if number >= len(self.runs):
            raise MissingName("run", str(number), [str(n) for n in range(len(self.runs))], where="this page")
        run = self.runs[number]
        found = run.predicted
        places = []
        for d, opened in enumerate(self.opened):
            for part in opened.parts.values():
                if found is not None and part.starts_of(found.shards):
                    places.append({"d": d, "split": part.name})
        confusion: list[list[int]] = []
        if found is not None and run.classes and "predicted" in found.columns and len(run.classes) <= 50:
            table = np.zeros((len(run.classes), len(run.classes)), int)
            np.add.at(table, (found.columns["label"].astype(int), found.columns["predicted"].astype(int)), 1)
            confusion = table.tolist()
        return {**run.to_json(), "places": places, "confusion": confusion, "judged": len(found) if found else 0}

    def marks(self, _: Given) -> dict[str, Any]:
        """The marks that count."""
        found = list(self._marks.values())
        return {
            "path": str(self.marks_path) if self.marks_path else "",
            "count": len(found),
            "marks": [msgspec.to_builtins(mark) for mark in found[-500:]],
        }

    def mark(self, given: dict[str, Any]) -> dict[str, Any]:
        """Put a mark on a record; it goes to the file of marks at once."""
        if self.marks_path is None:
            raise BushelError("no file for marks was chosen: start with --marks FILE")
        _, opened, part = self._part(_texts(given))
        row = _whole(_texts(given), "row", 0)
        kind, label = given.get("mark"), given.get("label", "")
        if kind not in ("drop", "label", "look", "none") or not isinstance(label, str) or len(label) > 1000:
            raise ValueError(f"mark must be drop, label, look or none; got {str(kind)[:40]!r}")
        if kind == "label" and not label:
            raise ValueError("label must say the right label, got none")
        place = part.place(row)
        key = self.key_of(part, row)
        digest = place.sha256 or ("" if key else self._digest(place.shard))
        made = Mark(
            mark=kind,
            key=key,
            sha256=digest,
            record=place.record,
            feature=opened.label,
            label=label if kind == "label" else "",
            shard=Path(place.shard).name,
            split=part.name,
            row=row,
        )
        with self._lock:
            add_mark(self.marks_path, made)
            self._marks.pop(made.place, None)
            if kind != "none":
                self._marks[made.place] = made
        return {"mark": "" if kind == "none" else kind, "label": made.label, "count": len(self._marks)}

    def _digest(self, shard: str) -> str:
        """The SHA-256 of a file, computed once."""
        if shard not in self._digests:
            self._digests[shard] = sha256_of(as_path(shard))
        return self._digests[shard]

    def _mark_of(self, part: Part, row: int) -> Mark | None:
        if not self._marks:
            return None
        place = part.place(row)
        key = self.key_of(part, row)
        digest = place.sha256
        if not key and not digest and any(mark.shard == Path(place.shard).name for mark in self._marks.values()):
            digest = self._digest(place.shard)  # reads the file, so only of one that a mark names
        return self._marks.get((key, "", -1) if key else ("", digest, place.record))

    def _mark_at(self, part: Part, row: int) -> str:
        found = self._mark_of(part, row)
        return found.mark if found else ""

    def _marked_rows(self, number: int, part: Part) -> list[int]:
        """Records with a mark, as far as the marks say where they are."""
        rows = [mark.row for mark in self._marks.values() if mark.split == part.name and 0 <= mark.row < len(part)]
        return [row for row in sorted(set(rows)) if number < len(self.opened) and self._mark_of(part, row) is not None]

    def _tile(self, opened: Opened, part: Part, record: Record, roles: Mapping[str, str]) -> dict[str, Any]:
        fields = {
            name: _shown(opened, name, value, roles.get(name, "bytes"), is_short=True)
            for name, value in record.values.items()
        }
        return {
            "row": record.row,
            "problem": record.problem,
            "bytes": len(record.payload),
            "fields": fields,
            "boxes": boxes_of(record.values, roles),
            "points": points_of(record.values, roles),
            "mark": _marked(self._mark_of(part, record.row)),
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
                **_shown(opened, name, value, roles.get(name, "bytes"), is_short=False),
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
            "points": points_of(record.values, roles),
            "key": self.key_of(part, row),
            "mark": _marked(self._mark_of(part, row)),
            "predicted": [
                {"run": run.name, **answer}
                for number, run in enumerate(self.runs)
                for answer in self._answers_for(number, part, [row]).values()
            ],
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
            if keys is None or record >= len(keys):
                return ""
            key = keys[record].decode("utf-8", "backslashreplace")
            repeats = part.shard(number).shards.shards[0].index.values.get("repeat")
            times = int(repeats[record]) if repeats is not None else 0
            return key.removesuffix(f"#{times}") if times > 0 else key
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

    def pictures(self, given: Given) -> Iterator[bytes]:
        """Pictures of one feature of many records: a line for each, as soon as it is ready."""
        rows = [int(text) for text in given.get("rows", "").split(",") if text.isdecimal()][:MOST_AT_ONCE]
        self._part(given)

        def line(row: int) -> bytes:
            try:
                data, kind = self.image({**given, "row": str(row)})
            except Exception as error:  # data is untrusted: whatever it breaks is shown
                why = error.message if isinstance(error, BushelError) else reason_of(error)
                return msgspec.json.encode({"row": row, "error": why}) + b"\n"
            return b'{"row":%d,"picture":"data:%s;base64,%s"}\n' % (row, kind.encode(), b64encode(data))

        def pieces() -> Iterator[bytes]:
            with Ahead(line, rows, threads=_DECODED_AT_ONCE, ahead=_DECODED_AT_ONCE) as lines:
                yield from _joined(lines)

        return pieces()

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


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in pieces that are worth sending."""
    piece = b""
    for line in lines:
        piece += line
        if len(piece) >= _SENT_AT_ONCE:
            yield piece
            piece = b""
    yield piece


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """What was posted, as an address would say it."""
    return {name: str(value) for name, value in given.items() if isinstance(value, str | int)}


def _marks_in(path: Path | None) -> dict[tuple[str, str, int], Mark]:
    return last_marks(path) if path is not None and path.exists() else {}


def _marked(mark: Mark | None) -> dict[str, str]:
    return {"mark": mark.mark, "label": mark.label} if mark is not None else {"mark": "", "label": ""}


def _compared(name: str, one: FeatureSummary | None, other: FeatureSummary | None) -> dict[str, Any]:
    """One feature of both sides; numbers in the same steps, so that their histograms can be compared."""
    found = [side for side in (one, other) if side is not None]
    told: dict[str, Any] = {"name": name, "drift": drift(one, other) if one and other else 1.0}
    for kind in ("values", "widths", "lengths"):
        numbers = [getattr(side, kind) for side in found if getattr(side, kind).count]
        if numbers:
            low, high = min(n.low for n in numbers), max(n.high for n in numbers)
            told |= {"kind": kind, "low": low, "high": high}
            told["bins"] = [getattr(s, kind).histogram(low, high) if s is not None else [] for s in (one, other)]
            told["means"] = [getattr(s, kind).mean if s is not None else None for s in (one, other)]
            break
    told["present"] = [side.present if side is not None else 0 for side in (one, other)]
    return told


def _options_of(run: LoadedRun) -> dict[str, str]:
    """How a run fed images, as an address would say it."""
    options = run.facts.get("options", {})
    size = options.get("image_size")
    told = {"augment": options.get("augment") or "", "range": options.get("range") or ""}
    if isinstance(size, list) and size:
        told["size"] = str(size[0])
    return {name: str(value) for name, value in told.items() if value or name == "augment"}


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


def _shown(opened: Opened, name: str, value: Any, role: str, *, is_short: bool) -> dict[str, Any]:
    """One value as JSON: labels by the names of their classes, tokens as the words that they stand for."""
    names = opened.classes if name == opened.label else ()
    shown = shown_value(value, role, is_short=is_short, names=names)
    if role == "tokens" and (words := _detokenisers(opened).get(name)) is not None:
        try:
            return {"kind": "text", "text": words(np.ravel(np.asarray(value, np.int64)).tolist()), "ids": shown["text"]}
        except (ValueError, TypeError, OverflowError, KeyError):
            return shown
    return shown


@lru_cache(maxsize=64)
def _detokenisers(opened: Opened) -> dict[str, Callable[[list[int]], str]]:
    """What turns tokens into text, by the features of the dataset that hold tokens which its build made."""
    try:
        transforms = opened.dataset.transforms()
    except (BushelError, ValueError, ImportError, OSError):
        return {}
    found = {}
    for transform in transforms:
        words = detokeniser_of(transform)
        if words is not None:
            found[transform.touches[-1]] = words  # type: ignore[attr-defined]
    return found


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


def class_counts(opened: Opened, part: Part, summary: Summary) -> dict[str, int]:
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
