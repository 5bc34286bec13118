"""A script run for a few batches: in a process with limits, and what was seen there, as rules read it."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from bushel.checking.collect.facts import Data
from bushel.checking.findings import Confidence, Finding, Location, Severity
from bushel.checking.program import DeliveredData, TracedUse
from bushel.checking.running.processes import Ended, ExecutionLimits, run_watched, start_warm
from bushel.checking.script.followed_script import Script, read_script
from bushel.errors import BushelError

Event = dict[str, Any]
Spot = Sequence[Any] | None  # file, line and function, as the child says it


_LIMITS, _UNLIMITED = ExecutionLimits(), Ended(0)


@dataclass
class Execution:
    """What was seen while a script ran for a few batches."""

    script: Script
    root: Path
    copy: Path
    entry: Path
    events: list[Event]
    output: str = ""
    data: Data | None = None
    ended: Ended = _UNLIMITED
    limits: ExecutionLimits = _LIMITS
    scripts: dict[str, Script] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The copy is gone when rules look: texts of all files are read from the originals.
        self.scripts[str(self.entry)] = self.script

    @property
    def stopped(self) -> str | None:
        """The limit that ended it."""
        return self.ended.stopped

    def of(self, *kinds: str) -> Iterator[Event]:
        """Observations of some kinds, in the order in which they were made."""
        return (event for event in self.events if event["kind"] in kinds)

    @cached_property
    def links(self) -> dict[int, Event]:
        """Links of pipelines by their number."""
        return {event["id"]: event for event in self.of("link")}

    @cached_property
    def fits(self) -> list[Event]:
        """Calls of `fit`."""
        return list(self.of("fit"))

    def deliveries(self) -> Iterator[tuple[Event, DeliveredData]]:
        """Calls of `fit`, with the account of what each was given."""
        for fit in self.fits:
            if fit.get("delivery"):
                yield fit, msgspec.convert(fit["delivery"], DeliveredData)

    @cached_property
    def traced(self) -> list[TracedUse]:
        """Where pipelines are used, with what arrives there of known records."""
        return [msgspec.convert(event["use"], TracedUse) for event in self.of("traced")]

    @cached_property
    def loop(self) -> Event | None:
        """What custom loops did, if there are some."""
        return next((event for event in self.of("loops") if event["gradients"] or event["applied"]), None)

    @property
    def has_trained(self) -> bool:
        """Whether it came to where it trains."""
        return bool(self.fits) or self.loop is not None

    @property
    def is_whole(self) -> bool:
        """Whether it ran to its end, with no error and no limit in the way."""
        return self.failure is None and self.stopped is None and any(True for _ in self.of("end"))

    @cached_property
    def has_stand_ins(self) -> bool:
        """Whether data that is not the user's took part."""
        return any(True for _ in self.of("stand_in"))

    @property
    def failure(self) -> Event | None:
        """The error that ended the run."""
        return next(self.of("error"), None)

    def chain(self, look: Event | None) -> list[Event]:
        """The links that lead to a dataset, sources first."""
        return [self.links[id] for id in (look or {}).get("chain", ()) if id in self.links]

    def data_of(self, *roles: str) -> Iterator[tuple[str, Event]]:
        """Looks at datasets by what they were used for: train, val, evaluate."""
        seen: set[tuple[str, Any]] = set()
        for role, look in self._all_data():
            key = (role, look.get("link") or id(look))
            if role in roles and key not in seen:
                seen.add(key)
                yield role, look

    def _all_data(self) -> Iterator[tuple[str, Event]]:
        for fit in self.fits:
            yield from ((role, fit[role]) for role in ("train", "val") if fit.get(role))
        for event in self.of("evaluate"):
            if event.get("data"):
                yield "evaluate", event["data"]
        if self.loop is not None:
            yield from (("train", look) for look in self.loop["train"])
            yield from (("val", look) for look in self.loop["val"])

    @cached_property
    def draws_on_purpose(self) -> bool:
        """Whether one model answers for the same data again and again: that measures how sure it is."""
        places = Counter(f"{event['place']}{event['model']}" for event in self.of("predict"))
        return max(places.values(), default=0) > 2 or any(True for _ in self.of("called_again"))

    def comparisons(self) -> Iterator[tuple[str, Event, Event, Event | None, Event | None]]:
        """What one model was trained and then measured on: role, both looks, how they overlap, and the `fit`."""
        for event in self.of("fit", "evaluate", "predict"):
            if event["kind"] == "fit" and event.get("train") and event.get("val"):
                yield "val", event["train"], event["val"], event.get("overlap"), event
            if event["kind"] != "fit" and event.get("data"):
                before = self.events[: self.events.index(event)]
                fits = [one for one in before if one["kind"] == "fit" and one["model"]["number"] == event["model"]]
                made = [one for one in fits[-1:] if one["train"]]
                yield from ((event["kind"], one["train"], event["data"], None, event) for one in made)
        loop = self.loop or {"pairs": ()}
        for i, j, overlap in loop["pairs"]:
            yield "val", loop["train"][i], loop["val"][j], overlap, None

    def original(self, name: str) -> Path:
        """The user's own file for one of the copy, named as the user names it."""
        path = Path(name)
        if path == self.entry:
            return self.script.path
        for base in (self.copy, self.root):
            if path.is_relative_to(base):
                depth = len(self.script.path.resolve().relative_to(self.root).parts)
                given = self.script.path
                top = given.parents[depth - 1] if len(given.parents) >= depth else self.root
                return top / path.relative_to(base)
        return path

    def script_of(self, name: str) -> Script | None:
        """The text of a file of the user's."""
        if name not in self.scripts:
            try:
                self.scripts[name] = read_script(self.original(name))
            except BushelError:
                return None
        return self.scripts[name]

    def location(self, spot: Spot) -> Location | None:
        """A place in the user's own file, or in a cell of the notebook."""
        if not spot:
            return None
        script = self.script_of(spot[0])
        if script is None:
            return Location(file=str(self.original(spot[0])), line=spot[1], column=1)
        text = script.text.splitlines()[spot[1] - 1 : spot[1]]
        column = len(text[0]) - len(text[0].lstrip()) + 1 if text else 1
        return script.location(line=spot[1], column=column)

    @cached_property
    def _seen_lines(self) -> set[tuple[str | None, int | None]]:
        """The lines at which something was seen, as findings name them."""
        spots = {spot for event in self.events for spot in _spots_in(event)}
        places = [self.location(spot) for spot in spots]
        return {(place.file, place.line) for place in places if place is not None}

    def has_seen(self, place: Location) -> bool:
        """Whether something was seen to happen at a place of the script."""
        return (place.file, place.line) in self._seen_lines

    def code(self, spot: Spot) -> str | None:
        """The text of a line."""
        script = self.script_of(spot[0]) if spot else None
        lines = script.text.splitlines() if script else []
        return lines[spot[1] - 1].strip() if spot and spot[1] <= len(lines) else None

    def nodes(self, spot: Spot) -> Iterator[ast.AST]:
        """The nodes of the innermost statement at a place; of a block, those of its head."""
        script = self.script_of(spot[0]) if spot else None
        if script is None or not spot:
            return
        found: ast.stmt | None = None
        for node in ast.walk(script.tree):
            if isinstance(node, ast.stmt) and node.lineno <= spot[1] <= (node.end_lineno or node.lineno):
                found = node if found is None or node.lineno >= found.lineno else found
        if found is not None:
            yield found
            yield from (node for node in ast.walk(found) if node is not found)

    def lines_in(self, function: Spot, pattern: str) -> list[Spot]:
        """The lines of a function, and of those that it calls in the same file, that match a pattern."""
        script = self.script_of(function[0]) if function else None
        if script is None or not function:
            return []
        known = {n.name: n for n in ast.walk(script.tree) if isinstance(n, ast.FunctionDef)}
        begun = [n for n in ast.walk(script.tree) if isinstance(n, _FUNCTIONS) and _first_line(n) == function[1]]
        pending: list[ast.AST] = [*begun[:1]]
        bodies: list[ast.AST] = []
        while pending and len(bodies) < 20:
            node = pending.pop()
            bodies.append(node)
            called = {n.func for n in ast.walk(node) if isinstance(n, ast.Call)}
            names = {
                n.id if isinstance(n, ast.Name) else n.attr for n in called if isinstance(n, ast.Name | ast.Attribute)
            }
            pending += [known[name] for name in names if name in known and known[name] not in bodies]
        numbers = {n for body in bodies for n in range(body.lineno, (body.end_lineno or 0) + 1)}  # type: ignore[attr-defined]
        lines = script.text.splitlines()
        return [(function[0], n, "") for n in sorted(numbers) if re.search(pattern, lines[n - 1].partition("#")[0])]

    def naming(self, text: str, *spots: Spot) -> list[Spot]:
        """The lines that hold a text as a constant, in the script and in the files of some places."""
        for spot in spots:
            self.script_of(spot[0] if spot else "")
        return [
            (name, node.lineno, "")
            for name, script in self.scripts.items()
            for node in ast.walk(script.tree)
            if isinstance(node, ast.Constant) and node.value == text
        ]

    def lines_of(self, pattern: str) -> list[Spot]:
        """The first lines of the script that match a pattern."""
        lines = self.script.text.splitlines()
        found = [n for n, line in enumerate(lines, 1) if re.search(pattern, line.partition("#")[0])]
        return [(str(self.entry), n, "") for n in found[:2]]

    def around(self, spot: Spot, pattern: str) -> list[Spot]:
        """The lines of the function around a place that match a pattern."""
        script = self.script_of(spot[0]) if spot else None
        if script is None or not spot:
            return []
        inside = [
            node
            for node in ast.walk(script.tree)
            if isinstance(node, ast.FunctionDef | ast.With | ast.For)
            and node.lineno <= spot[1] <= (node.end_lineno or 0)
        ]
        if not inside:
            return []
        node = max(inside, key=lambda one: (isinstance(one, ast.FunctionDef), one.lineno))
        lines = script.text.splitlines()
        numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        return [(spot[0], n, "") for n in numbers if re.search(pattern, lines[n - 1].partition("#")[0])]

    def made_before(self, spot: Spot, *, given: bool = False) -> list[Spot]:
        """The statements before a place that make or change something that is named there, the last one first.

        With `given`, what the call there is given, and not what it is called on.
        """
        statement = next(self.nodes(spot), None)
        script = self.script_of(spot[0]) if spot else None
        if not isinstance(statement, ast.stmt) or script is None or not spot:
            return []
        names = _names_given(statement) if given else _names_in(statement)
        around = [
            node for node in ast.walk(script.tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= statement.lineno <= (node.end_lineno or 0)
        ]  # fmt: skip
        scope: ast.AST = max(around, key=lambda node: node.lineno, default=script.tree)
        earlier = [
            node.lineno for node in ast.walk(scope)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)
            and node.lineno < statement.lineno and _makes(node) & names
        ]  # fmt: skip
        return [(spot[0], line, "") for line in sorted(earlier)[::-1]]

    def definitions(self, spot: Spot) -> list[Spot]:
        """Where the script gives a value to the constants that are named on a line."""
        script = self.script_of(spot[0]) if spot else None
        if script is None or not spot:
            return []
        named = {n.id for n in ast.walk(script.tree) if isinstance(n, ast.Name) and n.lineno == spot[1]}
        return [
            (spot[0], node.lineno, "") for node in script.tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and _makes(node) & named
        ]  # fmt: skip

    def keyword(self, spot: Spot, *names: str) -> Spot:
        """The line of a keyword of the call at a place; the place itself if there is none."""
        for node in self.nodes(spot):
            if isinstance(node, ast.keyword) and node.arg in names and spot:
                return (spot[0], node.value.lineno, "")
        return spot

    def found(
        self,
        message: str,
        *spots: Spot,
        help: str | list[str] = "",
        severity: Severity | None = None,
        confidence: Confidence = "proven",
        **evidence: Any,
    ) -> Finding:
        """A finding at places of the user's code."""
        known = [(spot, place) for spot in spots if (place := self.location(spot)) is not None]
        locations = list(dict.fromkeys(place for _, place in known))
        if not locations:
            known = [(spot, place) for spot in self._trained_at() if (place := self.location(spot)) is not None]
            locations = [place for _, place in known] or [Location(file=str(self.script.path), line=1, column=1)]
        code = self.code(known[0][0]) if known else None
        shown = {name: self._as_named(value) for name, value in evidence.items() if value is not None}
        return Finding(
            self._as_named(message),
            severity=severity,
            confidence=confidence,
            locations=locations,
            evidence=({"code": code} if code else {}) | shown,
            help=self._as_named([help] if isinstance(help, str) and help else list(help)),
        )

    def _trained_at(self) -> list[Spot]:
        """Where what is trained on is made, and where it is given to `fit`: of arrays nothing else is known."""
        places = [fit["place"] for fit in self.fits if fit.get("place")][:1]
        return [spot for place in places for spot in (*self.made_before(place, given=True)[:1], place)]

    def _as_named(self, value: Any) -> Any:
        """Text with the user's own paths in place of those of the copy, and of what the script wrote elsewhere."""
        if isinstance(value, list):
            return [self._as_named(one) for one in value]
        if not isinstance(value, str):
            return value
        top = str(self.copy.parent)
        return value.replace(str(self.copy), str(self.original(str(self.copy)))).replace(f"{top}/shadow/", "/")

    def summary(self) -> dict[str, Any]:
        """How the run went, as JSON."""
        return {
            "seconds": round(self.ended.seconds, 1),
            "stopped": self.stopped,
            "exit": self.ended.code,
            "fits": len(self.fits),
            "sandbox": {name: value for event in self.of("sandbox") for name, value in event.items() if name != "kind"},
            "output": self._as_named(self.output),
        }

    def notes(self) -> list[str]:
        """What was replaced or left out, in words."""
        lines = [
            f"{event['was']} is not here: {event['by'][0]}{_more(event['count'])} was read in its place"
            for event in self.of("replaced")
        ]
        lines += [f"argument {event['name']} was not given: {event['value']}" for event in self.of("argument")]
        lines += [
            f"the weights of {event['name']} are not here: random ones took their place" for event in self.of("weights")
        ]
        return self._as_named(lines + [event["text"] for event in self.of("note")])  # type: ignore[no-any-return]


def _spots_in(value: Any) -> Iterator[tuple[str, int, str]]:
    """All places in what the child wrote down."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _spots_in(item)
    elif isinstance(value, list):
        if len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], int) and isinstance(value[2], str):
            yield (value[0], value[1], value[2])
        else:
            for item in value:
                yield from _spots_in(item)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _names_given(node: ast.AST) -> set[str]:
    """The names in the arguments of the calls in a statement."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    given = [one for call in calls for one in (*call.args, *(keyword.value for keyword in call.keywords))]
    return {name for one in given for name in _names_in(one)}


def _makes(node: ast.Assign | ast.AugAssign | ast.Expr) -> set[str]:
    """The names that a statement gives a value; of a call such as `model.add(...)`, the one that it is called on."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return {called.value.id} if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else set()


def _first_line(node: Any) -> int:
    """The line at which Python says that a function begins: that of its first decorator."""
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(one.lineno for one in decorators)]))


def _more(count: int) -> str:
    return f" and {count - 1} more files" if count > 2 else " and 1 more file" if count == 2 else ""


SMALL = 4 << 20  # bytes of a file that is copied; larger ones are linked
MOST_FILES = 4000
SKIPPED = {".git", ".venv", "venv", "__pycache__", "node_modules", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"}
CODE = {".py", ".ipynb"}
OUTPUT_TAIL = 4000


def resolve_script(script: str | os.PathLike[str]) -> Path:
    """The file that runs: a folder with a `__main__.py` is a package."""
    path = Path(script)
    return path / "__main__.py" if (path / "__main__.py").is_file() else path


def run_script(
    script: str | os.PathLike[str],
    data: Data | None = None,
    *,
    args: str = "",
    limits: ExecutionLimits | None = None,
    folders: Iterable[Path] = (),
) -> Execution:
    """Run a script for a few batches, and return what was seen."""
    code = read_script(resolve_script(script))
    root = _root_of(code.path)
    limits = limits or ExecutionLimits()
    with tempfile.TemporaryDirectory(prefix="bushel-run-", ignore_cleanup_errors=True) as folder:
        top = Path(folder).resolve()
        copy = top / "copy"
        _copy_tree(root, copy)
        entry = copy / code.path.resolve().relative_to(root)
        _link_named(entry.parent, Path.cwd(), copy)
        if code.path.suffix == ".ipynb":
            entry = entry.with_name(f"{entry.stem}_notebook.py")
            entry.write_text(code.text, encoding="utf-8")
        job = _job(top, copy, entry, root, data, shlex.split(args))
        job["folders"] = [str(folder.resolve()) for folder in folders]
        job["environment"] = _environment(top, copy)
        (top / "job.json").write_text(json.dumps(job))
        for name in ("tmp", "keras", "shadow"):
            (top / name).mkdir()
        environment = os.environ | _QUIET | job["environment"]
        ended = run_watched(top / "job.json", folder=copy, environment=environment, limits=limits)
        events = list(_read_events(top / "seen.jsonl"))
        output = _tail(top / "output.txt")
        return Execution(code, root, copy, entry, events, output=output, data=data, ended=ended, limits=limits)


@contextlib.contextmanager
def warm_runs() -> Iterator[None]:
    """Run scripts inside from one process that has imported TensorFlow: for many of them, one after the other."""
    with start_warm(os.environ | _QUIET):
        yield


def _job(top: Path, copy: Path, entry: Path, root: Path, data: Data | None, args: list[str]) -> dict[str, Any]:
    files = [
        {
            "path": str(file.path.resolve()),
            "split": file.split,
            "compression": file.compression or "",
            "records": file.records,
            "bytes": file.size,
        }
        for file in (data.files if data is not None else ())
        if file.problem is None and file.path.is_file()
    ]
    package = _package_of(entry, copy)
    return {
        "top": str(top),
        "copy": str(copy),
        "entry": str(entry),
        "root": str(root),
        "cwd": str(Path.cwd()),
        "package": package,
        "args": args,
        "files": files,
    }


def _root_of(script: Path) -> Path:
    """The folder that is copied: the script's, or of a package, the one that holds it."""
    folder = script.resolve().parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder.parent if script.name == "__main__.py" and folder == script.resolve().parent else folder


def _package_of(entry: Path, copy: Path) -> str | None:
    """The dotted name under which a file of a package runs; None for a script."""
    if entry.parent == copy:
        return None
    return ".".join(entry.relative_to(copy).with_suffix("").parts)


def _copy_tree(root: Path, copy: Path) -> None:
    """Copy code and small files; large ones are linked, and can be read alone."""
    count = 0
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED and not name.startswith("bushel-run-")]
        there = copy / Path(folder).relative_to(root)
        there.mkdir(parents=True, exist_ok=True)
        for name in files:
            script, target = Path(folder) / name, there / name
            with contextlib.suppress(OSError):
                is_small = script.stat().st_size <= SMALL and count < MOST_FILES
                if is_small or script.suffix in CODE:
                    shutil.copyfile(script, target)
                    count += 1
                else:
                    target.symlink_to(script)


def _link_named(folder: Path, here: Path, copy: Path) -> None:
    """Link what the code names and the folder lacks, but which is where `check` runs: scripts run from there."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in copy.rglob("*") if path.suffix in CODE]
    for entry in here.iterdir():
        is_named = any(re.search(rf"[\"'/]{re.escape(entry.name)}[\"'/]", text) for text in texts)
        if is_named and entry.name not in SKIPPED and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)


# How libraries are to behave; they read it when they are imported.
_QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "KERAS_BACKEND": "tensorflow",
    "MPLBACKEND": "Agg",
    "WANDB_MODE": "disabled",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONHASHSEED": "0",
}


def _environment(top: Path, copy: Path) -> dict[str, str]:
    """Where one run writes."""
    return {
        "TMPDIR": str(top / "tmp"),
        "KERAS_HOME": str(top / "keras"),
        "MPLCONFIGDIR": str(top / "tmp"),
        "PWD": str(copy),
    }


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in _lines(path):
        with contextlib.suppress(ValueError):  # the last line of a child that was killed
            yield json.loads(line)


def _lines(path: Path) -> Iterable[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _tail(path: Path) -> str:
    return path.read_bytes()[-OUTPUT_TAIL:].decode("utf-8", "replace") if path.is_file() else ""
