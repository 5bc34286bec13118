"""What the page asks for, and the answers as plain values; and the marks that people put on records."""

from __future__ import annotations

import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from bushel import __version__
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.records.files import FOOTER, HEADER
from bushel.records.index import sha256_of
from bushel.records.survey import tf_description
from bushel.sources.marked import Mark, add_mark, last_marks
from bushel.storage import AnyPath, as_path
from bushel.viewing.finding_views import (
    BackgroundJob,
    CheckJob,
    DuplicateJob,
    Place,
    SharedJob,
    SuspectJob,
    quarantined,
)
from bushel.viewing.opened import Opened, OpenedSplit, Record, open_all, parse_roles
from bushel.viewing.runs import (
    LoadedRun,
    answers_for,
    confusion_of,
    differing_options,
    feeding_options,
    is_run,
    load_run,
    predicted_rows,
)
from bushel.viewing.search import Query, Search
from bushel.viewing.showing import Wanted, boxes_of, make_picture, make_pictures, make_sound, points_of, shown_field
from bushel.viewing.statistics import Summary, class_counts, compared, side_by_side, summarise
from bushel.viewing.strips import Face, choose_strips, face_of

__all__ = ["Marks", "Viewer", "open_viewer"]

_SHOWN = 500
Given: TypeAlias = Mapping[str, str]
MOST_AT_ONCE = 200  # records of one page
_SEARCHES = 8  # that are kept
_LOOKED_AT = 2_000  # records of each split, for the overview
_HEX_BYTES = 4096
_FIRST_LOOK_SECONDS = 2.0  # that a check waits for the first look
_CHECKED_AT_ONCE = 64 << 20  # bytes of a dataset that is checked without being asked


class Marks:
    """The marks that count, and the file that they are in."""

    def __init__(self, path: AnyPath | None) -> None:
        self.path = None if path is None else Path(path)
        self._found = last_marks(self.path) if self.path is not None and self.path.exists() else {}
        self._digests: dict[str, str] = {}
        self._lock = threading.Lock()

    def to_json(self) -> dict[str, Any]:
        """The last of them."""
        found = list(self._found.values())
        return {
            "path": str(self.path) if self.path else "",
            "count": len(found),
            "marks": [msgspec.to_builtins(mark) for mark in found[-_SHOWN:]],
        }

    def put(self, part: OpenedSplit, row: int, mark: Mark) -> dict[str, Any]:
        """Put a mark on a record; it goes to the file at once. `mark` says all but where the record is."""
        if self.path is None:
            raise BushelError("no file for marks was chosen: start with --marks FILE")
        place, key = part.place(row), part.key_of(row)
        made = msgspec.structs.replace(
            mark,
            key=key,
            sha256=place.sha256 or ("" if key else self._digest(place.shard)),
            record=place.record,
            shard=Path(place.shard).name,
            split=part.name,
            row=row,
        )
        with self._lock:
            add_mark(self.path, made)
            self._found.pop(made.place, None)
            if made.mark != "none":
                self._found[made.place] = made
        return {"mark": "" if made.mark == "none" else made.mark, "label": made.label, "count": len(self._found)}

    def of(self, part: OpenedSplit, row: int) -> dict[str, str]:
        """The mark of a record, as the page shows it; empty if there is none."""
        mark = self._of(part, row)
        return {"mark": mark.mark, "label": mark.label} if mark is not None else {"mark": "", "label": ""}

    def rows(self, part: OpenedSplit, kind: str = "") -> list[int]:
        """Records with a mark (of one kind), as far as the marks say where they are."""
        said = {mark.row for mark in self._found.values() if mark.split == part.name and 0 <= mark.row < len(part)}
        marks = {row: self._of(part, row) for row in sorted(said)}
        return [row for row, mark in marks.items() if mark is not None and kind in ("", mark.mark)]

    def _of(self, part: OpenedSplit, row: int) -> Mark | None:
        if not self._found:
            return None
        place, key = part.place(row), part.key_of(row)
        digest = place.sha256
        if not key and not digest and any(mark.shard == Path(place.shard).name for mark in self._found.values()):
            digest = self._digest(place.shard)  # reads the file, so only of one that a mark names
        return self._found.get((key, "", -1) if key else ("", digest, place.record))

    def _digest(self, shard: str) -> str:
        """The SHA-256 of a file, computed once."""
        if shard not in self._digests:
            self._digests[shard] = sha256_of(as_path(shard))
        return self._digests[shard]


def open_viewer(paths: Sequence[AnyPath], *, marks: AnyPath | None = None) -> Viewer:
    """Open datasets and runs; the data of runs is opened too, where it is still there."""
    runs = [load_run(path) for path in paths if is_run(path)]
    data = [path for path in paths if not is_run(path)]
    known = {str(as_path(path).absolute()) for path in data}
    for stated in dict.fromkeys(str(path) for run in runs for path in run.facts.get("data", [])):
        if str(as_path(stated).absolute()) not in known and as_path(stated).exists():
            data.append(stated)
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
        self._marks = Marks(marks)
        self._duplicates = [DuplicateJob(one) for one in self.opened]
        self._suspects = [SuspectJob(one) for one in self.opened]
        self._checks = [CheckJob(one, by) for one, by in zip(self.opened, self._suspects, strict=True)]
        self._shared_jobs: dict[Any, SharedJob] = {}
        self._searches: OrderedDict[tuple[int, str, Query], Search] = OrderedDict()
        self._summaries: dict[tuple[int, str], Summary] = {}
        self._is_seen = threading.Event()  # whether a page shows the first records
        self._lock = threading.Lock()
        self.answers: dict[str, Callable[[Given], Any]] = {
            "overview": self.overview,
            "samples": self.samples,
            "columns": self.columns,
            "statistics": self.statistics,
            "records": self.records,
            "record": self.record,
            "image": self.image,
            "pictures": self.pictures,
            "audio": self.audio,
            "hex": self.hex,
            "findings": self.findings,
            "duplicates": partial(self._look_at, self._duplicates),
            "suspects": partial(self._look_at, self._suspects),
            "quarantine": self.quarantine,
            "compare": self.compare,
            "batches": self.batches,
            "runs": self.show_runs,
            "run": self.run,
            "marks": self.marks,
        }
        self.changes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "check": partial(self._start, self._checks),
            "duplicates": partial(self._start, self._duplicates),
            "suspects": partial(self._start, self._suspects),
            "shared": self.start_shared,
            "marks": self.mark,
        }

    def start(self) -> Viewer:
        """Find records that no manifest counts, in the background, and check what is small.

        The check waits for the first look at the data, which it would slow down.
        """
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        for opened in self.opened:
            opened.count()
            _ = opened.roles  # the page asks for them first
        self._is_seen.wait(_FIRST_LOOK_SECONDS)
        for opened, job in zip(self.opened, self._checks, strict=True):
            if _is_small(opened):
                job.start()

    def _dataset(self, given: Given) -> tuple[int, Opened]:
        number = _whole(given, "d", 0)
        if number >= len(self.opened):
            raise MissingName("dataset", str(number), [str(n) for n in range(len(self.opened))], where="this page")
        return number, self.opened[number]

    def _part(self, given: Given) -> tuple[int, Opened, OpenedSplit]:
        number, opened = self._dataset(given)
        return number, opened, opened.part(given.get("split"))

    def _roles(self, opened: Opened, given: Given) -> dict[str, str]:
        return parse_roles(given.get("roles", ""), opened.roles)

    def overview(self, _: Given) -> dict[str, Any]:
        """What there is: datasets, their splits and features; no record is counted for it."""
        return {
            "version": __version__,
            "datasets": [self._described(opened) for opened in self.opened],
            "runs": [run.name for run in self.runs],
            "marks": str(self._marks.path) if self._marks.path else "",
        }

    def _described(self, opened: Opened) -> dict[str, Any]:
        roles, manifest = opened.roles, opened.manifest
        return {
            "name": opened.name,
            "where": opened.where,
            "label": opened.label,
            "classes": list(opened.classes),
            "is_built": opened.is_built,
            "is_small": _is_small(opened),
            "refused": manifest.refused if manifest else 0,
            "splits": [_split(part, opened) for part in opened.parts.values()],
            "features": [
                {"name": name, "type": _type(opened, name), "role": role, "required": _required(opened, name)}
                for name, role in roles.items()
            ],
            "problems": [problem for part in opened.parts.values() for problem in part.problems],
            "code": {
                "python": f"import bushel\n\ndata = {opened.code}",
                "tensorflow": tf_description(opened.schema),
            },
        }

    def samples(self, given: Given) -> dict[str, Any]:
        """Some records of each class of the first split that has any, by the features that say most."""
        _, opened = self._dataset(given)
        part = next((part for part in opened.parts.values() if len(part)), opened.part(None))
        roles = self._roles(opened, given)
        face = face_of(part, roles)
        strips, classes = choose_strips(opened, part)
        shown = [
            {"name": strip.name, "records": self._shown(opened, [(part.name, row) for row in strip.rows], roles, face)}
            for strip in strips
        ]
        return {"form": face.form, "names": face.names, "strips": shown, "classes": classes}

    def _shown(
        self, opened: Opened, places: Sequence[Place], roles: Mapping[str, str], face: Face, more: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Records by their faces and labels, and some more of their features."""
        kept = {*face.names, opened.label, *more}
        found = []
        for split, row in places:
            part = opened.parts[split]
            found.append({"split": split, **self._tile(opened, part, part.record(row), roles, kept)})
        return found

    def columns(self, given: Given) -> dict[str, Any]:
        """Each feature with its distribution in all splits, of some records."""
        number, opened = self._dataset(given)
        parts = list(opened.parts.values())
        found = [self._summary(number, part) for part in parts]
        splits = [
            {
                "name": part.name,
                "records": one.records,
                "damaged": one.damaged,
                "of": len(part),
                "classes": class_counts(opened, part, one),
            }
            for part, one in zip(parts, found, strict=True)
        ]
        self._is_seen.set()  # a page asks for columns when it has its records
        names = dict.fromkeys(name for one in found for name in one.features)
        features = {
            name: side_by_side(
                name, [one.features.get(name) for one in found], opened.classes if name == opened.label else ()
            )
            for name in names
        }
        return {"splits": splits, "columns": features}

    def findings(self, given: Given) -> dict[str, Any]:
        """What the check found so far, each finding with the records that show it."""
        number, opened = self._dataset(given)
        job, roles = self._checks[number], self._roles(opened, given)
        found = job.to_json()
        if found["findings"]:
            face = face_of(next(iter(opened.parts.values())), roles)
            found["form"] = face.form
            for at, one in enumerate(found["findings"]):
                shown = (self._shown(opened, group, roles, face, one["features"]) for group in job.groups(at))
                one["groups"] = list(shown)
        return found

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
            run = int(given.get("run", "0"))
            answers = answers_for(self.runs[run], part, list(rows)) if run < len(self.runs) else {}
            for record in facts["records"]:
                record["predicted"] = answers.get(record["row"])
        return facts

    def _search(self, number: int, part: OpenedSplit, query: Query, roles: Mapping[str, str]) -> Search:
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

    def chosen(self, number: int, part: OpenedSplit, name: str) -> Sequence[int] | None:
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
        if kind == "suspects":
            return self._suspects[number].rows(part.name)
        if kind == "marked":
            return self._marks.rows(part, rest)
        if kind == "run" and numbers and numbers[0] < len(self.runs):
            return predicted_rows(self.runs[numbers[0]], part, numbers[1:])
        raise MissingName("list", name, [], where=f"{part.name} of {self.opened[number].name}")

    def _look_at(self, jobs: Sequence[BackgroundJob], given: Given) -> dict[str, Any]:
        """What a search in the background has found, and how far it is."""
        return jobs[self._dataset(given)[0]].to_json()

    def _start(self, jobs: Sequence[BackgroundJob], given: dict[str, Any]) -> dict[str, Any]:
        """Search a dataset in the background."""
        job = jobs[self._dataset(_texts(given))[0]]
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
        rows = [compared(name, one.features.get(name), other.features.get(name)) for name in names]
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
            self._shared_jobs[key] = SharedJob([(opened, part) for _, opened, part in sides])
        return self._shared_jobs[key]

    def start_shared(self, given: dict[str, Any]) -> dict[str, Any]:
        """Look for contents that are in both sides of a comparison, in the background."""
        job = self._shared(_texts(given))
        job.start()
        return job.to_json()

    def _sides(self, given: Given) -> list[tuple[int, Opened, OpenedSplit]]:
        return [
            self._part({"d": given.get(d, "0"), "split": given.get(split, "")})
            for d, split in (("d", "split"), ("e", "other"))
        ]

    def _summary(self, number: int, part: OpenedSplit) -> Summary:
        with self._lock:
            known = self._summaries.get((number, part.name))
        if known is None:
            known = summarise(part, _LOOKED_AT)
            if part.is_whole:
                with self._lock:
                    self._summaries[number, part.name] = known
        return known

    def batches(self, given: Given) -> dict[str, Any]:
        """Some records as a model is fed them."""
        from bushel.viewing.fed import feed

        _, opened, part = self._part(given)
        asked = {name: given[name] for name in ("size", "augment", "range", "seed", "start") if name in given}
        if self.runs and not {"size", "augment", "range"} & set(asked):
            asked = {**feeding_options(self.runs[0]), **asked}
        return feed(opened, part, asked)

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
        return {**run.to_json(), "places": places, "confusion": confusion_of(run), "judged": len(found) if found else 0}

    def marks(self, _: Given) -> dict[str, Any]:
        """The marks that count."""
        return self._marks.to_json()

    def mark(self, given: dict[str, Any]) -> dict[str, Any]:
        """Put a mark on a record; it goes to the file of marks at once."""
        _, opened, part = self._part(_texts(given))
        row = _whole(_texts(given), "row", 0)
        kind, label = given.get("mark"), given.get("label", "")
        if kind not in ("drop", "label", "look", "none") or not isinstance(label, str) or len(label) > 1000:
            raise ValueError(f"mark must be drop, label, look or none; got {str(kind)[:40]!r}")
        if kind == "label" and not label:
            raise ValueError("label must say the right label, got none")
        return self._marks.put(part, row, Mark(mark=kind, feature=opened.label, label=label if kind == "label" else ""))

    def _tile(
        self,
        opened: Opened,
        part: OpenedSplit,
        record: Record,
        roles: Mapping[str, str],
        kept: Container[str] | None = None,
    ) -> dict[str, Any]:
        """A record as a grid shows it, with all of its features or those that are kept."""
        fields = {
            name: shown_field(opened, name, value, roles.get(name, "bytes"), is_short=True)
            for name, value in record.values.items()
            if kept is None or name in kept
        }
        return {
            "row": record.row,
            "problem": record.problem,
            "bytes": len(record.payload),
            "fields": fields,
            "boxes": boxes_of(record.values, roles),
            "points": points_of(record.values, roles),
            "mark": self._marks.of(part, record.row),
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
                **shown_field(opened, name, value, roles.get(name, "bytes"), is_short=False),
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
            "key": part.key_of(row),
            "mark": self._marks.of(part, row),
            "predicted": [
                {"run": run.name, **answer} for run in self.runs for answer in answers_for(run, part, [row]).values()
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

    def image(self, given: Given) -> tuple[bytes, str]:
        """A picture of one feature of a record."""
        _, opened, part = self._part(given)
        return make_picture(part, _whole(given, "row", 0), self._wanted(opened, given))

    def pictures(self, given: Given) -> Iterator[bytes]:
        """Pictures of one feature of many records, a line each."""
        _, opened, part = self._part(given)
        rows = [int(text) for text in given.get("rows", "").split(",") if text.isdecimal()][:MOST_AT_ONCE]
        return make_pictures(part, rows, self._wanted(opened, given))

    def _wanted(self, opened: Opened, given: Given) -> Wanted:
        name = given.get("feature", "")
        side = None if given.get("side") == "full" else min(2048, max(16, _whole(given, "side", 224)))
        role = given.get("role") or self._roles(opened, given).get(name, "image")
        return Wanted(name, role, side, _whole(given, "frame", 0))

    def audio(self, given: Given) -> tuple[bytes, str]:
        """The sound of a feature, as a file."""
        _, _, part = self._part(given)
        return make_sound(part, _whole(given, "row", 0), given.get("feature", ""))

    def hex(self, given: Given) -> dict[str, Any]:
        """Some raw bytes of a record."""
        _, _, part = self._part(given)
        record, begin = part.record(_whole(given, "row", 0)), _whole(given, "begin", 0)
        data = record.framed[begin : begin + _HEX_BYTES]
        return {"begin": begin, "hex": data.hex(), "of": len(record.framed)}


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """What was posted, as an address would say it."""
    return {name: str(value) for name, value in given.items() if isinstance(value, str | int)}


def _whole(given: Given, name: str, default: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name} must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)


def _is_small(opened: Opened) -> bool:
    """Whether all records can be read without being asked."""
    return sum(part.size for part in opened.parts.values()) <= _CHECKED_AT_ONCE


def _type(opened: Opened, name: str) -> str:
    feature = opened.schema.features.get(name)
    return feature.describe() if feature is not None else "not in the schema"


def _required(opened: Opened, name: str) -> bool:
    feature = opened.schema.features.get(name)
    return feature is not None and feature.required


def _split(part: OpenedSplit, opened: Opened) -> dict[str, Any]:
    stated = opened.manifest.splits.get(part.name) if opened.manifest else None
    return {
        "name": part.name,
        "shards": len(part.paths),
        "records": len(part) if part.rows is None else len(part.rows),
        "bytes": part.size,
        "is_whole": part.is_whole,
        "classes": dict(stated.label_counts) if stated else {},
    }


def _code_of(opened: Opened, part: OpenedSplit, row: int) -> dict[str, str]:
    command = f"bushel cat {shlex.join(opened.given)} --record {shlex.quote(f'{part.name}:{row}')}"
    return {"python": f"{opened.code}[{part.name!r}][{row}]", "command": command}
