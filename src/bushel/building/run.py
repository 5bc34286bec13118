"""The build: raw files to a sharded dataset, in parallel, byte-identical, resumable, with nothing lost in silence."""

from __future__ import annotations

import errno
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bushel.building import recipe as recipes
from bushel.building.engines import Counters, Engine, LocalEngine, Run, helpers_of, paths_in, watch, watch_plan
from bushel.building.output.journal import (
    QUARANTINE_NAME,
    Identity,
    Journal,
    Outcome,
    join_quarantines,
    read_quarantine,
    versions,
)
from bushel.building.output.output_folder import (
    built_before,
    check_outside,
    check_schema,
    largest_narrowings,
    open_output,
    publish,
    remove_left_journal,
    same_recipe,
)
from bushel.building.planning.draft import Frozen
from bushel.building.planning.plan import Plan, load_plan, recut, save_plan
from bushel.building.planning.planner import NothingToAdd, encoder_of, named_source, plan_build
from bushel.building.planning.probe import probe_plan
from bushel.building.planning.synthesis import balanced_source
from bushel.building.recipe import Balance, Constraint, Method, Order, Recipe, code_of
from bushel.building.record_encoding import (
    BlockEncoder,
    NothingLearnt,
    check_learnt,
    count_train,
    fit_tasks,
    load_fits,
    load_merged,
    save_fits,
)
from bushel.building.tasks import Job, Task, give_back_memory, memory_of, perform
from bushel.data.roles import Account
from bushel.errors import (
    BushelWarning,
    FileProblem,
    MissingName,
    Stopped,
    TooManyRefused,
    in_python,
    quantity,
    readable_size,
    understood,
)
from bushel.parallel import Stopwatch, Timing
from bushel.printing import html_table
from bushel.records.files import Compression
from bushel.records.manifest import MANIFEST_NAME, Manifest
from bushel.sources.opening import open_any, open_source
from bushel.sources.protocol import Source
from bushel.storage import NAMED_OUT, AnyPath, as_path
from bushel.transforms import Transform
from bushel.transforms.by_name import describe_transforms, make_from_data, make_transforms
from bushel.transforms.chain import merge_layer, next_layer, restore_all

__all__ = ["Built", "Run", "build", "build_recipe"]


_STARTING = 1.0  # seconds that starting processes takes, in which this one could work
_WRITTEN = 400e6  # bytes that one process writes per second
_IN_THREADS = 1.7  # how many processes threads are worth, if a source decodes in threads
_LONG = 2.0  # seconds of work that is cut into parts, unless there are enough shards for all workers
_MANY = 16  # workers of a cluster, and the most that parts are made for
_PARTS, _PART_BYTES = 32, 32 << 20  # the least number of parts, and their largest size


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What a build made."""

    path: str
    manifest: Manifest
    samples: int  # planned by this build
    records: int  # written by it
    refused: int
    bytes: int
    seconds: float
    resumed: int  # tasks that an earlier run had done
    narrowed: dict[str, float]  # by feature, the largest difference caused by float32
    problems: list[str]  # found by the plan
    is_acceptable: bool  # nothing was refused, or no more than was allowed
    timings: dict[str, Timing]  # by stage
    account: Account | None = None  # what the features of the source were taken for

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {split.records:,}" for name, split in self.manifest.splits.items())
        refused = f", {self.refused:,} refused" if self.refused else ""
        return f"Built({self.path!r}: {splits}{refused}; {readable_size(self.bytes)} in {self.seconds:.1f} s)"

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{split.records:,}", f"{len(split.shards):,}", readable_size(sum(s.bytes for s in split.shards)))
            for name, split in self.manifest.splits.items()
        ]
        return html_table(("split", "records", "shards", "size"), rows, title=f"{self.path} ({self.refused:,} refused)")

    def warn(self) -> None:
        """Issue a `BushelWarning` for what was refused, and for each problem."""
        found = [in_python(problem) for problem in self.problems]
        if self.refused:
            where = as_path(self.path) / QUARANTINE_NAME
            found.append(f"{quantity(self.refused, 'sample')} of {self.samples:,} refused: {where} says why")
        for text in found:
            warnings.warn(f"{self.path}: {text}", BushelWarning, stacklevel=3)


def build(
    source: Source | AnyPath | Any,
    out: AnyPath,
    *,
    transforms: Sequence[Transform] = (),
    split: Mapping[str, float] | str | None = None,
    resplit: bool = False,
    exact: bool = False,
    stratify: str | None = None,
    group: str | None = None,
    label: str | None = None,
    seed: int = 0,
    order: Order = "shuffled",
    shard_size: int | str = recipes.SHARD_SIZE,
    shards: int | None = None,
    compression: Compression | None = None,
    limit: int | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    balance: Balance | Method | None = None,
    run: Run | None = None,
) -> Built:
    """Turn a source into a dataset in the folder `out`.

    >>> bushel.build("photos/", "data", split="80/10/10", stratify="label")

    `source` is one of `bushel.sources`, a path, arrays by name, a pair (x, y), a DataFrame, or any iterable of samples.

    A build that was stopped in any way continues when it is started again, and writes the same bytes as one that ran
    through. Samples that cannot be used are left out and listed in `_quarantine.jsonl`. `run` says how to build: with
    how many workers, how many samples may be refused, whether an existing dataset is replaced or added to.
    """
    recipe = Recipe(
        split=dict(split) if isinstance(split, Mapping) else split,
        resplit=resplit,
        exact=exact,
        stratify=stratify,
        group=group,
        label=label,
        seed=seed,
        order=order,
        shard_size=recipes.parse_size(shard_size),
        shards=shards,
        compression=compression,
        limit=limit,
        constraints=dict(constraints or {}),
        transforms=describe_transforms(transforms),
        balance=Balance(method=balance) if isinstance(balance, str) else balance,
    )
    run = run or Run()
    with run.hired(source if isinstance(source, str | PathLike) else None, transforms) as engine:
        stopwatch = Stopwatch(engine.cpu_seconds)
        with stopwatch.stage("open"):
            opened, recipe = named_source(_open_inside(source, run, engine), recipe)
        built = _build(_Given(opened, recipe, as_path(out), transforms, run, engine, stopwatch))
    built.warn()
    return built


def build_recipe(recipe: Recipe | AnyPath, out: AnyPath | None = None, *, run: Run | None = None) -> Built:
    """Build from a recipe, or from a `recipe.toml`."""
    where = "recipe" if isinstance(recipe, Recipe) else str(recipe)
    run = run or Run()
    if run.inside is True and not isinstance(recipe, Recipe):  # its paths begin in the working folder
        run = replace(run, inside=["."])
    within = () if isinstance(run.inside, bool) else run.inside
    recipe = recipe if isinstance(recipe, Recipe) else recipes.read_recipe(recipe, within=within)
    out = out if out is not None else recipe.out
    if out is None:
        raise ValueError(f"{where} names no out: give the folder to write")
    transforms = make_transforms(recipe.transforms)
    recipe = msgspec.structs.replace(recipe, transforms=describe_transforms(transforms))
    run.check_inside(recipe.source, recipe.transforms)
    with run.hired(recipe.source, transforms) as engine:
        stopwatch = Stopwatch(engine.cpu_seconds)
        with stopwatch.stage("open"):
            opened = open_source(recipe.source, helpers=helpers_of(engine))
            opened, recipe = named_source(opened if run.inside is False else opened.kept_inside(), recipe)
        built = _build(_Given(opened, recipe, as_path(out), transforms, run, engine, stopwatch))
    built.warn()
    return built


def _open_inside(source: Any, run: Run, engine: Engine) -> Source:
    """Open what a caller gave; what is a path is looked at before, if the run is to stay inside."""
    if isinstance(source, str | PathLike):
        run.check_inside({"path": source})
    opened = open_any(source, helpers_of(engine))
    if run.inside is False:
        return opened
    run.check_inside(opened.describe())
    return opened.kept_inside()


class _Given(NamedTuple):
    """What a build is made of."""

    source: Source
    recipe: Recipe
    out: Path
    transforms: Sequence[Transform]
    run: Run
    engine: Engine
    stopwatch: Stopwatch


def _build(given: _Given) -> Built:
    """Build, unless the same build made what is there."""
    if not given.run.overwrite and not given.run.append:
        manifest = built_before(given.out, given.recipe, given.source, given.transforms)
        if manifest is not None:
            _check_built_inside(given, manifest)
            remove_left_journal(given.out)
            return _unchanged(given.out, manifest)
    return _Build(given).do()


def _check_built_inside(given: _Given, manifest: Manifest) -> None:
    """Refuse to call a dataset finished that holds what this run refuses."""
    if given.run.inside is not False and (count := manifest.counted.get(NAMED_OUT, 0)):
        what = f"was built without --inside, and holds {quantity(count, 'image')} from outside the folder of the source"
        raise FileProblem(given.out, what, help=["Use --overwrite to build it without them."])


def _unchanged(out: Path, manifest: Manifest) -> Built:
    return Built(
        path=str(out),
        manifest=manifest,
        samples=0,
        records=0,
        refused=0,
        bytes=0,
        seconds=0.0,
        resumed=0,
        narrowed={},
        problems=[],
        is_acceptable=True,
        timings={},
    )


class _Build:
    """One build, from its source to its dataset."""

    def __init__(self, given: _Given) -> None:
        source, recipe, out, transforms, run, self.engine, self.stopwatch = given
        check_outside(source, out)
        self.source, self.run = source, run
        self.output = open_output(out, overwrite=run.overwrite, append=run.append, is_remote=self.engine.is_remote)
        before = self.output.manifest
        self._source_before: dict[str, Any] | None = before.recipe.get("source") if before else None
        self.recipe = same_recipe(self.output, recipe, source.describe())
        self.transforms = self._frozen_transforms(transforms)
        self.journal: Journal = self.output.journal
        self.begun = time.perf_counter()

    def _frozen_transforms(self, given: Sequence[Transform]) -> Sequence[Transform]:
        """The transforms; for an addition, those of the dataset with what they learned."""
        manifest = self.output.manifest
        if manifest is None:
            return given
        with understood(self.output.out / MANIFEST_NAME, "its transforms cannot be made"):
            made = given or make_from_data(self.recipe.transforms, self.output.out)
            return restore_all(made, manifest, self.output.out)

    def do(self) -> Built:
        """Build, and return what was built."""
        with self.output.hold() as check_held:
            try:
                return self._do(check_held)
            except NothingToAdd:
                return self._built(None, self.output.manifest, [], 0)
            except TooManyRefused as error:
                is_kept = self.journal.has_outcomes
                more = "What is done is kept: with a larger --max-bad the same command continues."
                error.help = (*error.help[:1], more if is_kept else "With a larger --max-bad the build goes on.")
                parts = sorted(self.journal.refused.glob("*.jsonl"))
                join_quarantines(parts, self.output.folder / QUARANTINE_NAME, keep=self.output.manifest is not None)
                self.output.show_refused()
                raise
            except Stopped as error:
                raise Stopped(f"{error.message}{self._kept}", help=error.help) from None
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"{self._kept}") from None
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                help = ["Make room, then run the same command again."]
                raise FileProblem(self.output.out, f"the disk is full{self._kept}", help=help) from None

    @property
    def _kept_inside(self) -> dict[str, bool]:
        return {} if self.run.inside is False else {"inside": True}

    @property
    def _kept(self) -> str:
        """The end of a message about a build that stopped."""
        return "; what is done is kept, and the same command continues" if self.journal.has_outcomes else ""

    def _do(self, check_held: Callable[[], None]) -> Built:
        frozen = self.output.frozen
        with self.stopwatch.stage("prepare"):
            identity = Identity(
                recipe=msgspec.to_builtins(msgspec.structs.replace(self.recipe, out=None)) | self._kept_inside,
                fingerprint=self.source.fingerprint(),
                versions=versions(),
                generation=frozen.generation if frozen else 0,
                code=code_of(self.transforms),
            )
            self.output.prepare(identity)
            self._look()
        made, encoder = self._make_plan(frozen)
        give_back_memory()  # of all rows, while the plan was made
        encoder = replace(encoder, schema=made.facts.schema, labels=made.facts.labels)
        self.source = balanced_source(self.source, made.folder, made.facts.originals)
        runner = self._runner(made)
        made, encoder = self._fit(made, encoder, runner)
        outcomes, resumed = self._run_tasks(made, encoder, runner)
        with self.stopwatch.stage("publish"):
            self.engine.close()  # a lost worker whose task was repeated may have left files until now
            self.journal.clean()  # left by such workers
            check_held()
            manifest = publish(self.output, self.recipe, made, encoder, outcomes)
            self.output.finish()
        return self._built(made, manifest, outcomes, resumed)

    def _look(self) -> None:
        """Check what all workers see. On failure, leave nothing that would hinder a second try."""
        try:
            self.engine.look(paths_in(self.source.describe()), self.output.written_to, versions())
        except BaseException:
            if load_plan(self.journal.plan) is None:
                self.output.give_up()
            raise

    def _make_plan(self, frozen: Frozen | None) -> tuple[Plan, BlockEncoder]:
        """Make the plan, or load it. On failure, leave nothing that would hinder a second try."""
        made = load_plan(self.journal.plan)
        try:
            encoder = encoder_of(self.source, self.recipe, self.transforms)
            if made is None:
                addition = (frozen, self.output.known_keys()) if frozen else None
                helpers = helpers_of(self.engine)
                if helpers is not None:
                    self._spool()
                with watch_plan(self.run.progress):
                    fresh = plan_build(
                        self.source, self.recipe, encoder, self.journal.plan, addition, helpers, self.stopwatch
                    )
                check_schema(self.output, fresh)
                self._check_disk(fresh)
                made = fresh
        except BaseException:
            if made is None:
                self.output.give_up()
            raise
        return made, encoder

    def _fit(self, made: Plan, encoder: BlockEncoder, engine: Engine) -> tuple[Plan, BlockEncoder]:
        """Fit transforms on the train split, and cut the shards by the size of the transformed samples."""
        kept = self.journal.fits_path("all")
        if made.facts.is_fitted:
            return made, replace(encoder, transforms=load_fits(kept)) if kept.exists() else encoder
        try:
            passes = 0
            while (layer := next_layer(encoder.transforms)).fits:
                numbers, fit_rows = fit_tasks(made, self.source)
                tasks = [Task("fit", number, slot, passes) for slot, number in enumerate(numbers)]
                job = self._job(made, encoder, engine.counters(self.journal.progress, len(tasks)))
                self._run_stage("fit", tasks, replace(job, layer=layer, fit_rows=fit_rows), engine, made)
                with self.stopwatch.stage("merge fits"):
                    learnt = load_merged([self.journal.fits_path(task.name) for task in tasks], helpers_of(engine))
                    encoder = replace(encoder, transforms=merge_layer(encoder.transforms, layer, learnt))
                passes += 1
            check_learnt(encoder.transforms)
            save_fits(kept, encoder.transforms, durable=engine.is_remote)
            with self.stopwatch.stage("probe"):
                looked = probe_plan(self.source, made, encoder)
            made = recut(
                made, looked.sizes, looked.schema, shard_size=self.recipe.shard_size, shards=self.recipe.shards
            )
            return made, replace(encoder, schema=looked.schema)
        except (NothingLearnt, MissingName):
            self.output.give_up()
            raise

    def _run_tasks(self, made: Plan, encoder: BlockEncoder, engine: Engine) -> tuple[list[Outcome], int]:
        shards = range(len(made.facts.shards))
        made = self._with_parts(made, engine)
        part_rows = made.facts.part_rows or 0
        if self.source.reads == "sequence":
            partitions = [i for i, planned in enumerate(made.facts.planned) if planned]
            reading = [Task("partition", number, slot) for slot, number in enumerate(partitions)]
        else:
            reading = [Task("part", number, number) for number in range(_count_parts(made, part_rows))]
        stages: list[tuple[str, list[Task]]] = [("write", [Task("shard", i, i) for i in shards])]
        if reading:
            stages = [("read", reading), ("write", [Task("merge", i, i) for i in shards])]
        outcomes: list[Outcome] = []
        resumed = 0
        for stage, tasks in stages:
            counters = engine.counters(self.journal.progress, len(tasks))
            job = self._job(made, encoder, counters, has_source=tasks[0].kind != "merge")
            job = replace(job, part_rows=part_rows)
            if stage == "write" and isinstance(engine, LocalEngine):
                engine.shrink(len(tasks))
            found, skipped = self._run_stage(stage, tasks, job, engine, made, sum(one.refused for one in outcomes))
            outcomes += found
            resumed += skipped
        return outcomes, resumed

    def _with_parts(self, made: Plan, engine: Engine) -> Plan:
        """The plan with the size of its parts, saved: a build continues as it began, with any number of workers."""
        if made.facts.part_rows is not None or self.source.reads == "sequence":
            return made
        rows = _rows_of_part(made, _workers_of(engine))
        made = Plan(made.folder, msgspec.structs.replace(made.facts, part_rows=rows))
        save_plan(made)
        return made

    def _runner(self, made: Plan) -> Engine:
        """The engine, or this process if the work would be done before workers have started."""
        engine = self.engine
        if self.run.workers is not None or not isinstance(engine, LocalEngine) or engine.is_started:
            return engine
        if not _is_short(made, engine.workers, in_threads=self.source.decodes_in_threads):
            return engine
        engine.close()  # workers would start meanwhile
        return LocalEngine(1)

    def _job(self, made: Plan, encoder: BlockEncoder, counters: Counters, *, has_source: bool = True) -> Job:
        return Job(
            source=self.source if has_source else None,
            encoder=encoder,
            out=self.output.folder,
            compression=self.recipe.compression,
            max_refused=self.run.allowed(made.samples),
            check=self.run.check,
            counters=counters,
            deliver_to=self.output.deliver_to,
            build=self.journal.identity.digest if self.output.deliver_to else "",
            is_spread=self.output.is_spread,
        )

    def _run_stage(
        self, stage: str, tasks: list[Task], job: Job, engine: Engine, made: Plan, refused_before: int = 0
    ) -> tuple[list[Outcome], int]:
        done = self.journal.outcomes(task.name for task in tasks)
        resumed = len(done)
        left = [task for task in tasks if task.name not in done]
        refused = sum(outcome.refused for outcome in done.values())
        self._check_refused(refused, done, job)
        so_far = sum(outcome.samples for outcome in done.values())
        of = made.samples if job.layer is None else count_train(made)
        known = refused_before or refused  # a shard reports the samples that were refused before merging again
        watched = watch(self.run.progress, stage, job.counters, done=so_far, refused=known, of=of)
        with self.stopwatch.stage(stage), watched:
            pickled = self._pickled(job)
            runner = LocalEngine(1) if pickled is None else engine  # a source that does not pickle is read here
            work = partial(perform, pickled or job)
            for outcome in runner.run(work, left, memory=memory_of(made, tasks[0].kind)):
                done[outcome.task] = outcome
                refused += outcome.refused
                if job.source is not None:
                    self._check_refused(refused, done, job)
        if stage == "write":
            self.stopwatch.add("read back", of=stage, seconds=job.counters.total()[3] / 1e9)
        return [done[task.name] for task in tasks], resumed

    def _pickled(self, job: Job) -> str | None:
        """The path of a file that workers load the job from; None if its source does not pickle."""
        import cloudpickle

        path = self.journal.new_job_path()
        try:
            if job.source is not None:
                self._spool()
            path.write_bytes(cloudpickle.dumps(job))
        except (TypeError, AttributeError, ValueError) as error:
            if "pickle" not in str(error).lower():
                raise
            return None
        return str(path)

    def _spool(self) -> None:
        """Have the source write what its workers map into the journal, which all machines see."""
        self.source.spool(self.journal.spool)

    def _check_refused(self, refused: int, done: Mapping[str, Outcome], job: Job) -> None:
        if job.max_refused is None or refused <= job.max_refused:
            return
        task = next(outcome.task for outcome in done.values() if outcome.refused)
        first = next(read_quarantine(self.journal.refused_path(task)))
        raise TooManyRefused(self.output.out, refused, job.max_refused, first=f"The first: {first}")

    def _check_disk(self, made: Plan) -> None:
        self._spool()  # its files already take their space
        rows = _rows_of_part(made, _workers_of(self.engine))
        parts = len(made.facts.planned) if self.source.reads == "sequence" else _count_parts(made, rows)
        needed = self.output.bytes_needed(made, parts) * 11 // 10  # sizes are estimated from a few samples
        free = shutil.disk_usage(self.output.folder).free
        if needed > free:
            raise FileProblem(
                self.output.out,
                f"the build needs about {readable_size(needed)}, and {readable_size(free)} are free on its disk",
            )

    def _taken_for_old(self, made: Plan | None) -> list[str]:
        """Say how many rows of another file were left out because the dataset has samples with their numbers."""
        before, now = self._source_before, self.source.describe()
        if before is None or "format" not in now or now.get("key") is not None or now.get("path") == before.get("path"):
            return []
        if made is None:
            which = "all rows"
        elif left_out := sum(made.facts.partition_rows) - made.samples:
            which = quantity(left_out, "row")
        else:
            return []
        return [
            f"{which} of {now.get('path')} were left out: without --key, rows are identified by their row numbers, and "
            "the dataset already has these; to add rows of other files, build the dataset with --key COL"
        ]

    def _built(self, made: Plan | None, manifest: Manifest | None, outcomes: list[Outcome], resumed: int) -> Built:
        assert manifest is not None
        written = [outcome for outcome in outcomes if outcome.path]
        refused = sum(outcome.refused for outcome in written)
        return Built(
            path=str(self.output.out),
            manifest=manifest,
            samples=made.samples if made else 0,
            records=sum(outcome.records for outcome in written),
            refused=refused,
            bytes=sum(outcome.bytes for outcome in written),
            seconds=time.perf_counter() - self.begun,
            resumed=resumed,
            narrowed=largest_narrowings(outcomes, {}),
            problems=[*self._taken_for_old(made), *_problems(made, manifest)],
            is_acceptable=refused == 0 or self.run.max_bad is not None,
            timings=self.stopwatch.timings(),
            account=made.facts.account if made else None,
        )


def _problems(made: Plan | None, manifest: Manifest) -> list[str]:
    return [*made.facts.problems, *_lost_classes(made, manifest)] if made else []


def _lost_classes(made: Plan, manifest: Manifest) -> list[str]:
    """Classes that were planned for a split, and of which every sample was refused."""
    found = []
    for name, counts in made.facts.label_counts.items():
        written = manifest.splits[name].label_counts if name in manifest.splits else {}
        lost = [label for label, count in counts.items() if count and not written.get(label)]
        is_counted = written or not (name in manifest.splits and manifest.splits[name].records)
        if lost and is_counted:  # classes are not counted if a transform made something else of the label
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            said = ", ".join(map(repr, lost[:5]))
            found.append(f"no record in {name} of {said}{more}: every sample of it was refused")
    return found


def _is_short(made: Plan, workers: int, *, in_threads: bool) -> bool:
    """Whether other processes would save less time than it takes to start them."""
    seconds = made.facts.sample_seconds * made.samples + made.bytes / _WRITTEN
    return seconds * (1 / (_IN_THREADS if in_threads else 1) - 1 / workers) < _STARTING


def _workers_of(engine: Engine) -> int:
    return engine.workers if isinstance(engine, LocalEngine) else _MANY


def _count_parts(made: Plan, rows: int) -> int:
    """How many parts are read before shards are merged from them; 0 if shards are written directly."""
    return -(-made.samples // rows) if rows else 0


def _rows_of_part(made: Plan, workers: int) -> int:
    """How many samples a part has, if there are too few shards to keep all workers busy; otherwise 0."""
    seconds, shards = made.facts.sample_seconds * made.samples, len(made.facts.shards)
    # Parts are written and read once more: that must cost less than leaving some workers without work.
    is_worth_it = seconds * (min(workers, _MANY) - shards) > 2 * made.bytes / _WRITTEN * shards
    if seconds <= _LONG or not is_worth_it:
        return 0
    parts = max(_PARTS, -(-made.bytes // _PART_BYTES))
    return -(-made.samples // parts)
