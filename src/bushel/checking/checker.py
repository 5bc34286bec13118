"""The check itself: what to look at, which rules, and what is reported."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from bushel.checking.collect.facts import Data, FileFacts, ReadingPlan
from bushel.checking.collect.one_pass import (
    PART_BYTES,
    FeatureRoles,
    FileEngine,
    Interrupted,
    list_data,
    read_data,
)
from bushel.checking.finding_formats import page_text, report_html, summary
from bushel.checking.findings import (
    FAMILIES,
    SEVERITIES,
    CheckSettings,
    Finding,
    Rule,
    Severity,
    all_rules,
    aspects_needed,
    at_least,
    find_rule,
    joined_twins,
    load_settings,
    read_baseline,
    rules_as_they_were,
    weighed_by_run,
    without_silenced,
)
from bushel.checking.findings import select as select_rules
from bushel.checking.program import FollowedStep
from bushel.data.tf_descriptions import read_pbtxt
from bushel.errors import BushelError, FileProblem
from bushel.parallel import Ahead, Crew, SharedFolder, Stopwatch, Timing, available_cores
from bushel.records.manifest import Manifest, has_manifest, read_manifest
from bushel.storage import AnyPath, as_path, disk_folders, disk_sizes

_LARGE = 256 << 20  # bytes of data that processes share out
_SWITCH = 0.0005  # seconds after which a thread that waits for Python gets it: the core does the rest meanwhile
_MODULES = ["bushel.checking.collect.one_pass"]  # that they need

OnRecords = Callable[[int, int], None]  # records looked at so far, and how many there are
UNFOLLOWED = "not-followed"
UNSEEN = (UNFOLLOWED, "could-not-be-run", "stopped-at-limit")  # reported before what was found


@dataclass(repr=False)
class Report:
    """All findings, worst first, and what was looked at."""

    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, Any] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    timings: dict[str, Timing] = field(default_factory=dict)  # by stage

    def worst(self) -> Severity | None:
        """The highest severity that was found."""
        found = [SEVERITIES.index(f.severity) for f in self.findings if f.severity]
        return SEVERITIES[max(found)] if found else None

    def fails(self, fail_on: Severity = "error") -> bool:
        """Whether something is found at this severity or above."""
        return at_least(self.worst(), fail_on)

    @property
    def is_cut_off(self) -> bool:
        """Whether the run of a script ended at a limit, so that what comes after was not checked."""
        return bool(self.checked.get("run", {}).get("stopped"))

    def __repr__(self) -> str:
        return f"<Report: {summary(self.findings, self.checked)}>"

    def _repr_html_(self) -> str:
        return report_html(self.findings, self.checked)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)


def check(
    data: Any = None,
    *,
    against: AnyPath | Iterable[AnyPath] = (),
    script: AnyPath | None = None,
    run: bool = False,
    run_args: str = "",
    run_limit: float | None = None,
    model: Any = None,
    contract: AnyPath | None = None,
    schema: AnyPath | None = None,
    plan: ReadingPlan | None = None,
    probe: bool = False,
    label: str | None = None,
    group: str | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    baseline: AnyPath | None = None,
    rules: Iterable[AnyPath] = (),
    trust_settings: bool = False,
    progress: OnRecords | None = None,
    engine: FileEngine | None = None,
) -> Report:
    """Find what is wrong with data, a script that reads it, and a model that is to be trained on it.

    `data` is a dataset's folder, TFRecord files or patterns; or a dataset that is open, a feed of batches, a
    `tf.data.Dataset`, a DataFrame or a dict of arrays. `script` is parsed; with `run` it also runs for a few batches,
    in a copy of its folder, with `run_args` as its command line and at most `run_limit` seconds of processor time.
    `contract` is that of a trained
    model, or its run's folder; the one next to a saved `model` is found by itself. `schema` is a `schema.pbtxt` of TFX
    that the data should follow. `plan` says how the data is going to
    be read; a script says it itself.
    `rules` are Python files with custom rules. What a `bushel.toml` in the data says applies only with
    `trust_settings`, and never runs Python.
    `engine` says who looks at the files: this process, or a cluster (`bushel.ray.engine`).

    >>> for finding in bushel.check("data", script="train.py"):
    ...     print(finding.rule, finding.message)
    """
    if all(given is None for given in (data, script, model, contract)):
        raise ValueError("data must be given, or a script, a model or a contract; got none of them")
    if run and script is None:
        raise ValueError("run must come with a script; got none")
    if run_limit is not None and not run_limit > 0:
        raise ValueError(f"run_limit must be above 0, got {run_limit}")
    paths = _paths_of(data)
    with ExitStack() as stack:
        crew = stack.enter_context(closing(Crew()))
        if engine is None and _will_need_processes(paths or ()):
            crew.hire(0, _MODULES)  # which they import while this process imports the rules
        all_rules()
        stack.enter_context(rules_as_they_were())
        given = [*(paths or ()), *(_paths_of(against) or ()), model, contract, schema]
        settings = load_settings(given, trust_settings=trust_settings, rules=rules)
        checks = _Checks(_select(settings, select, ignore), plan or ReadingPlan(), progress, engine, crew)
        stack.enter_context(closing(checks))
        try:
            with checks.stopwatch.stage("read"):
                checks.look(data, paths, _paths_of(against) or [], label, group, script)
                checks.look_at_schema(schema)
            if run and script is not None:
                with checks.stopwatch.stage("run"):
                    checks.run_script(script, run_args, run_limit)
            checks.look_at_model(model)
            checks.look_at_contract(contract, model)
            if probe:
                checks.run_probes()
        except Interrupted as interrupted:
            checks.data, checks.checked["stopped"] = interrupted.data, True
        with checks.stopwatch.stage("rules"):
            checks.apply()
        return _reported(checks, settings, baseline)


def explain(rule: str) -> str:
    """The page of a rule, by its id or its name."""
    all_rules()
    with rules_as_they_were():
        load_settings([])
        return page_text(find_rule(rule))


def _select(settings: CheckSettings, wanted: Iterable[str], ignored: Iterable[str]) -> list[Rule]:
    return select_rules([*(wanted or settings.select)], [*settings.ignore, *ignored])


def _paths_of(data: Any) -> list[AnyPath] | None:
    if isinstance(data, str | PathLike):
        return [data]
    if isinstance(data, list | tuple) and all(isinstance(item, str | PathLike) for item in data):
        return list(data)
    if data is None:
        return None
    from bushel.checking.collect.memory import paths_of_opened

    opened = paths_of_opened(data)
    return None if opened is None else list(opened)


class _Threads:
    """Looks at files in threads of this process, as an engine does elsewhere: the core does nearly all of the work."""

    def __init__(self, threads: int, hashed: Sequence[FileFacts]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bushel")
        self._hashed = hashed  # files whose digests are asked for later, and are found when threads are free
        self.digests: dict[int, Future[str]] = {}

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Nothing: this process sees them."""

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], *, memory: int = 0) -> Iterator[Any]:  # noqa: ARG002
        before = sys.getswitchinterval()  # low already if another thread checks something
        sys.setswitchinterval(min(before, _SWITCH))
        coming = deque(self._pool.submit(work, task) for task in tasks)
        for file in self._hashed:
            if file.number not in self.digests:
                self.digests[file.number] = self._pool.submit(file.digest)
        try:
            while coming:
                yield coming.popleft().result()
        except BaseException:
            self._pool.shutdown(cancel_futures=True)
            raise
        finally:
            if before > _SWITCH:
                sys.setswitchinterval(before)

    def cpu_seconds(self) -> float:
        return 0.0  # it is this process's

    def close(self) -> None:
        """Take no more tasks; those that it has are done."""
        self._pool.shutdown(wait=False)


class _Processes:
    """Looks at files in processes of this machine, as an engine does on others."""

    def __init__(self, cores: int, crew: Crew) -> None:
        self._cores, self._crew = cores, crew

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Nothing: they see what this process sees."""

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], *, memory: int = 0) -> Iterator[Any]:  # noqa: ARG002
        self._crew.hire(min(self._cores, len(tasks)), _MODULES)
        yield from self._crew.run(work, tasks)

    def cpu_seconds(self) -> float:
        return self._crew.cpu_seconds()

    def close(self) -> None:
        self._crew.close()


def _will_need_processes(paths: Iterable[AnyPath]) -> bool:
    """Whether so much is at these paths that processes may share it out."""
    sizes = disk_sizes([*paths, *(file for folder in disk_folders(paths) for file in folder.iterdir())])
    return available_cores() > 1 and sum(sizes) >= _LARGE and not any(map(_is_table, disk_folders(paths)))


def _is_table(folder: Path) -> bool:
    """Whether a dataset holds numbers and words only, as far as its manifest says."""
    try:
        schema = read_manifest(folder).schema if has_manifest(folder) else None
    except FileProblem:  # reported when the data is listed
        return False
    return schema is not None and all(feature.encoding == "list" for feature in schema.features.values())


def _engine_for(
    files: Sequence[FileFacts], manifest: Manifest | None, crew: Crew, found: FeatureRoles, *, hashed: bool
) -> FileEngine | None:
    """Who shares out the files, where there is so much to read that this pays; else None."""
    cores = available_cores()
    sizes = disk_sizes(file.path for file in files)
    # Files that bushel built have indexes, so they can be cut.
    tasks = len(sizes) if manifest is None else sum(max(1, size // PART_BYTES) for size in sizes)
    if tasks < 2 or sum(sizes) < _LARGE:  # however many cores there are: samples depend on the parts
        return None
    if cores > 1 and found.need_processes:
        return _Processes(cores, crew)
    shards = [s for split in manifest.splits.values() for s in split.shards] if manifest is not None and hashed else []
    names = {Path(shard.path).name for shard in shards if shard.sha256}
    return _Threads(cores, [file for file in files if file.path.name in names and file.problem is None])


class _Checks:
    def __init__(
        self,
        rules: list[Rule],
        plan: ReadingPlan,
        progress: OnRecords | None,
        engine: FileEngine | None,
        crew: Crew,
    ) -> None:
        self.rules = rules
        self.engine, self.crew = engine, crew
        self.plan = plan
        self.progress = progress
        self.data: Data | None = None
        self.script: Any = None
        self.model: Any = None
        self.probe: Any = None
        self.execution: Any = None
        self.folders: list[Path] = []
        self.contract: Any = None
        self.checked: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self.stopwatch = Stopwatch(lambda: self.workers_cpu)
        self.workers_cpu: float | None = 0.0

    def close(self) -> None:
        """Look for no more digests: no rule asks for them."""
        for digest in self.data.digests.values() if self.data is not None else ():
            digest.cancel()

    def look(
        self,
        data: Any,
        paths: list[AnyPath] | None,
        against: list[AnyPath],
        label: str | None,
        group: str | None,
        script: AnyPath | None,
    ) -> None:
        """Read the script, which may tell the plan, then the data, then follow the script over the data."""
        parsed = None
        if script is not None:
            from bushel.checking.running.execution import resolve_script
            from bushel.checking.script import follow, parse

            parsed = parse(resolve_script(script))
            self.checked["script"] = str(script)
        self.folders = disk_folders(paths or ())
        if parsed is not None and _has_no_records(self.folders):
            paths = _folders_of_records(self.folders)
        if data is not None and (paths or not self.folders):
            self._read(data, paths, against, label, group)
        if parsed is not None:
            self.script = follow(parsed, self.data)
            self.checked["not_followed"] = self.script.not_followed
            self.checked["followed"] = _followed(self.script.steps())
            if self.data is not None:
                self.data.plan = self.script.plan(self.plan)

    def look_at_schema(self, schema: AnyPath | None) -> None:
        """Read what the data should follow."""
        if schema is None:
            return
        if self.data is None:
            raise ValueError("schema must come with data; got none")
        self.data.declared = read_pbtxt(schema)
        self.checked["schema"] = str(schema)

    def _read(
        self, data: Any, paths: list[AnyPath] | None, against: list[AnyPath], label: str | None, group: str | None
    ) -> None:
        if paths is None:
            from bushel.checking.collect.memory import read_memory

            self.data = read_memory(data, label=label, plan=self.plan)
            self.checked |= {"records": self.data.records}
            return
        files, manifest, missing = list_data(paths, against)
        if not files and missing:
            raise missing[0]
        engine = self.engine

        def engine_for(found: FeatureRoles) -> FileEngine | None:
            nonlocal engine
            hashed = any("digests" in rule.needs for rule in self.rules)
            engine = engine or _engine_for(files, manifest, self.crew, found, hashed=hashed)
            return engine

        try:
            if engine is not None:
                engine.look([as_path(path) for path in (*paths, *against)], (), {})
            self.data = read_data(
                files,
                manifest=manifest,
                label=label,
                group=group,
                plan=self.plan,
                aspects=aspects_needed(self.rules),
                progress=self.progress,
                engine_for=engine_for,
            )
        finally:
            if engine is not None:
                engine.close()
                self.workers_cpu = engine.cpu_seconds()
        self.data.missing_paths = missing
        self.data.digests = engine.digests if isinstance(engine, _Threads) else {}
        self.checked |= {
            "files": [str(file.path) for file in files],
            "splits": {name: split.records for name, split in self.data.splits.items()},
            "records": self.data.records,
            "bytes": sum(file.size for file in files),
        }

    def run_script(self, script: AnyPath, args: str, seconds: float | None) -> None:
        """Run the script for a few batches."""
        from bushel.checking.running import ExecutionLimits, run_script
        from bushel.checking.running.followed_steps import steps_of

        limits = ExecutionLimits() if seconds is None else ExecutionLimits(seconds=seconds)
        self.execution = run_script(Path(script), self.data, args=args, limits=limits, folders=self.folders)
        self.checked["followed"] = _followed(steps_of(self.execution))
        self.checked["run"] = self.execution.summary()
        self.checked["replaced"] = self.execution.notes()

    def look_at_model(self, model: Any) -> None:
        """Load the model, and see how many classes it has."""
        if model is None:
            return
        from bushel.checking.rules.model_rules import look_at_model

        self.model = look_at_model(model, self.data)
        self.checked["model"] = self.model.name
        if self.data is not None and self.data.plan.classes is None:
            self.data.plan = replace(self.data.plan, classes=self.model.labels)

    def run_probes(self) -> None:
        """Train the model on one batch; say so where that cannot be done."""
        if self.model is None or self.data is None:
            return
        from bushel.checking.rules.probe_rules import TrainingProbe, run_probes

        found = run_probes(self.model, self.data, self.contract.contract if self.contract is not None else None)
        self.probe = found if isinstance(found, TrainingProbe) else None
        if isinstance(found, str):
            self.checked["not_probed"] = found

    def look_at_contract(self, contract: AnyPath | None, model: Any) -> None:
        """Read the contract that was given, or the one in the folder of the model."""
        from bushel.checking.rules.serving_rules import contract_beside, look_at_contract

        found = contract if contract is not None else contract_beside(model)
        if found is not None:
            self.contract = look_at_contract(found, self.data, self.model.model if self.model is not None else None)
            self.checked["contract"] = self.contract.path

    def apply(self) -> None:
        """Run every rule that has what it needs; those that look at data, beside each other."""
        subjects = {"data": self.data, "script": self.script, "model": self.model, "probe": self.probe, "run": None}
        subjects |= {"contract": self.contract, "execution": self.execution}
        rules = [rule for rule in self.rules if subjects[rule.subject] is not None]
        beside = {rule.id: rule for rule in rules if rule.subject == "data" and rule.id[:3] in FAMILIES}
        look = partial(_findings_of, subject=self.data)
        with Ahead(look, beside.values(), threads=available_cores(), ahead=len(beside)) as found:
            found.start()
            for rule in rules:
                self.findings += next(found) if rule.id in beside else _findings_of(rule, subjects[rule.subject])
        for rule in self.rules if self.execution is not None else ():
            self.findings += rule.run_seen(self.execution)


def _followed(steps: list[FollowedStep]) -> dict[str, Any]:
    """How much of a script was followed, as JSON."""
    lost = [str(step) for step in steps if step.problem]
    return {"steps": len(steps) - len(lost), "of": len(steps), "not_understood": lost}


def _findings_of(rule: Rule, subject: Any) -> list[Finding]:
    try:
        return list(rule.run(subject))
    except BushelError:
        raise
    except Exception as error:
        if rule.id[:3] in FAMILIES:
            raise
        raise BushelError(f"rule {rule.id} failed: {type(error).__name__}: {error}") from error


# Files that a script may read and no rule does: tables, texts, arrays and pictures.
_OTHERS = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".npy", ".npz", ".jpg", ".jpeg", ".png", ".wav"}


def _has_no_records(folders: list[Path]) -> bool:
    """Whether all that was given is folders of folders, as of images by class, or of files of other kinds."""
    files = [entry for folder in folders for entry in folder.iterdir() if entry.is_file()]
    return (
        bool(folders)
        and all(any(folder.iterdir()) for folder in folders)
        and all(file.suffix.lower() in _OTHERS for file in files)
    )


def _folders_of_records(folders: list[Path]) -> list[AnyPath]:
    """The folders in these that hold files which are called records, as `train/` and `val/`."""
    inside = sorted(path for folder in folders for path in folder.iterdir() if path.is_dir())
    return [path for path in inside if any("tfrec" in file.name.lower() for file in path.iterdir())]


def _reported(checks: _Checks, settings: CheckSettings, baseline: AnyPath | None) -> Report:
    old = set()
    if baseline or settings.baseline:
        path = Path(baseline or settings.baseline or "")
        if not path.is_file():
            raise FileProblem(path, "there is no such baseline", help=["write one with --write-baseline"])
        old = read_baseline(path)
    kept, suppressed, known = [], 0, 0
    is_run = checks.execution is not None and checks.execution.has_trained
    findings = joined_twins(without_silenced(checks.findings))
    if is_run and checks.execution.is_whole:
        findings = weighed_by_run(findings, checks.execution.has_seen)
    for finding in findings:
        if any(suppression.covers(finding) for suppression in settings.suppress):
            suppressed += 1
        elif finding.fingerprint in old:
            known += 1
        else:
            kept.append(finding)
    kept = [finding for finding in kept if finding.name != UNFOLLOWED or not is_run]
    kept.sort(key=lambda f: (f.name not in UNSEEN, -SEVERITIES.index(f.severity or "info"), f.rule))
    checks.checked |= {"rules": [rule.id for rule in checks.rules], "suppressed": suppressed, "baseline": known}
    return Report(kept, checks.checked, checks.rules, checks.stopwatch.timings())
