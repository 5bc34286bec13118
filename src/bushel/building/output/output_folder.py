"""Where a build writes and is published: a folder, or a store, to which tasks upload what they finish here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.building.engines import paths_in
from bushel.building.output.journal import (
    CLAIM_NAME,
    JOURNAL_NAME,
    QUARANTINE_NAME,
    Identity,
    Journal,
    Outcome,
    StoredJournal,
    delivered,
    join_quarantines,
    unfinished,
    versions,
)
from bushel.building.planning.draft import Frozen
from bushel.building.planning.plan import Plan
from bushel.building.recipe import RECIPE_NAME, Recipe, code_of, write_recipe
from bushel.building.record_encoding import BlockEncoder
from bushel.data.categories import Labels, hash_values
from bushel.data.schema import Schema
from bushel.data.splits import TRAIN, find
from bushel.errors import BushelError, FileProblem, understood
from bushel.parallel import SharedFolder
from bushel.plugins import is_address
from bushel.records.index import load_index
from bushel.records.manifest import (
    ARTIFACTS_NAME,
    MANIFEST_NAME,
    SUCCESSOR_NAME,
    Balanced,
    Manifest,
    ShardEntry,
    SplitEntry,
    described_files,
    encode_manifest,
    read_manifest,
    write_manifest,
)
from bushel.sources.protocol import Source
from bushel.storage import (
    TFDS_FEATURES,
    TFDS_INFO,
    as_path,
    check_own_folder,
    check_writable,
    copy_file,
    empty_folder,
    finish_move,
    is_in_store,
    may_have_changed,
    new_path,
    paths_below,
    remove_below,
    replace_folder,
    replaced_path,
    shard_paths,
    sharing_help,
    sibling,
    sizes_in,
    write_whole,
)
from bushel.storage.file_kinds import SHARD_CODECS
from bushel.storage.whole_folders import hold
from bushel.transforms import Transform
from bushel.transforms.by_name import make_from_data
from bushel.transforms.chain import keep

__all__ = [
    "OutputFolder",
    "OutputStore",
    "built_before",
    "check_before",
    "check_only_ours",
    "check_outside",
    "check_schema",
    "open_folder",
    "open_output",
    "publish",
    "remove_left_journal",
    "same_recipe",
    "wipe",
]


BOUNDS_NAME = "split.json"
_OURS = {MANIFEST_NAME, RECIPE_NAME, QUARANTINE_NAME, JOURNAL_NAME, ARTIFACTS_NAME, SUCCESSOR_NAME, "_index"}
DESCRIPTION = re.compile(rf"{re.escape(TFDS_INFO)}|{re.escape(TFDS_FEATURES)}|.+\.labels\.txt")  # for others
_SUFFIXES = "|".join(re.escape(codec.suffixes[0]) for codec in SHARD_CODECS.values())
_SHARD = re.compile(rf".+-\d{{5}}-of-\d{{5}}\.tfrecord({_SUFFIXES})?$|^\..*\.partial$")


@dataclass(frozen=True)
class OutputFolder:
    """`out` is where the dataset will be, `folder` where it is written until it is complete."""

    out: Path
    folder: Path
    manifest: Manifest | None = None  # of the dataset that samples are added to
    may_wipe: bool = False
    deliver_to: Path | None = None  # where finished shards go, if they do not stay in `folder`
    is_spread: bool = False  # over machines that share nothing but a store

    @property
    def journal(self) -> Journal:
        """The journal of the build that writes here."""
        return Journal(self.folder)

    @property
    def frozen(self) -> Frozen | None:
        """What an addition must not change."""
        if self.manifest is None:
            return None
        path = self.out / ARTIFACTS_NAME / BOUNDS_NAME
        bounds = msgspec.json.decode(path.read_bytes(), type=dict[str, list[int]]) if path.exists() else {}
        return Frozen(
            generation=self.manifest.generation + 1,
            schema=self.manifest.schema,
            label=self.manifest.label,
            bounds=bounds,
            splits=list(self.manifest.splits),
        )

    def known_keys(self) -> NDArray[np.uint64] | None:
        """Hashes of the keys of all records in the dataset."""
        if self.manifest is None:
            return None
        found = []
        names = [shard.path for split in self.manifest.splits.values() for shard in split.shards]
        for path in shard_paths(self.out, names):
            index = load_index(path)
            if index is None or "key" not in index.values:
                raise FileProblem(path, "has no index with keys, so nothing can be added")
            found.append(np.asarray(index.values["key"]))
        return np.concatenate([*found, np.empty(0, np.uint64)])

    def prepare(self, identity: Identity) -> None:
        """Start here or continue. If the dataset may be replaced, so may another unfinished build."""
        if self.may_wipe and self.journal.is_begun and self.journal.differences(identity):
            wipe(self.folder)
        self.journal.begin(identity)
        self.journal.clean()

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Lock the folder. The function returned raises if another build has taken it over."""
        with self.journal.lock():
            yield lambda: None

    @property
    def written_to(self) -> list[SharedFolder]:
        """The folders that tasks write to."""
        help = "OUT must be a folder that all nodes share, at the same path."
        return [SharedFolder(self.journal.folder, self.folder, help)]

    @property
    def target(self) -> Path:
        """Where finished shards are."""
        return self.deliver_to or self.folder

    def bytes_needed(self, plan: Plan, parts: int) -> int:
        """The most disk space that the build takes; `parts` is the number of runs before shards."""
        return plan.disk_bytes + (plan.run_bytes(parts) if parts else 0)

    def show_refused(self) -> None:
        """Make the list of refused samples available although the build stopped; in a folder it already is."""

    def finish(self) -> None:
        """Replace the old dataset, if any, by the finished one, and remove what only the build needed."""
        if self.folder != self.out:
            replace_folder(self.out, self.folder)
        Journal(self.out).remove()

    def give_up(self) -> None:
        """Remove a build that could not be planned, except for shards that an earlier run finished."""
        if self.journal.has_shards:
            return
        self.journal.remove()
        with suppress(OSError):  # not empty: it holds the dataset to add to
            self.folder.rmdir()


def open_folder(out: Path, *, overwrite: bool, append: bool) -> OutputFolder:
    """Find out what is at `out`, and whether the build may write there."""
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, and a dataset is a folder")
    if out.is_symlink() or out.name in ("", ".."):
        out = out.resolve()  # replace the folder, not the link
    _check_links(out)
    _finish_swap(out)
    is_complete = (out / MANIFEST_NAME).exists()
    check_before(out, is_complete=is_complete, overwrite=overwrite, append=append)
    if append:
        return OutputFolder(out, out, read_manifest(out))
    check_only_ours(out)
    folder = new_path(out) if is_complete else out
    folder.mkdir(parents=True, exist_ok=True)
    return OutputFolder(out, folder, may_wipe=overwrite)


def _check_links(out: Path) -> None:
    """Refuse links among the files of builds, before anything is locked, emptied or written."""
    for path in (*(out / name for name in sorted(_OURS)), new_path(out), replaced_path(out)):
        check_own_folder(path)


def check_before(out: Path, *, is_complete: bool, overwrite: bool, append: bool) -> None:
    """Refuse to add to a dataset that does not exist, and to replace one without --overwrite."""
    if append and not is_complete:
        raise FileProblem(out, "there is no finished dataset here to add to", help=["Leave out --append."])
    if is_complete and not overwrite and not append:
        raise FileProblem(
            out,
            "is a finished dataset already",
            help=["To replace it: --overwrite", "To add samples that it does not have: --append"],
        )


def check_only_ours(out: Path) -> None:
    """Refuse a folder with files that no build wrote."""
    if not out.exists():
        return
    for path in sorted(out.iterdir()):
        is_ours = path.name in _OURS or DESCRIPTION.fullmatch(path.name)
        if not is_ours and not _SHARD.search(path.name):
            raise FileProblem(
                out, f"holds {path.name!r}, which no build wrote", help=["Choose a new folder, or move that file away."]
            )
    names = {path.name for path in out.iterdir()}
    if names and not names & {MANIFEST_NAME, JOURNAL_NAME}:
        raise FileProblem(
            out, "holds files, but neither a dataset nor a build that can be continued", help=["Choose a new folder."]
        )


def wipe(folder: Path) -> None:
    """Forget an unfinished build, but keep its folder locked."""
    Journal(folder).empty()
    empty_folder(folder, keep=JOURNAL_NAME)


def _finish_swap(out: Path) -> None:
    """Finish what a build left undone when it was killed while it replaced a dataset."""
    finish_move(out)
    new = new_path(out)
    if (new / MANIFEST_NAME).exists():
        with Journal(new).lock():
            if not _is_published(new):
                shutil.rmtree(new)  # it is the old dataset
            elif out.exists():
                replace_folder(out, new)
            else:
                new.rename(out)
    if _is_published(out):
        Journal(out).remove()
    if replaced_path(out).exists():
        shutil.rmtree(replaced_path(out))


def remove_left_journal(out: Path) -> None:
    """Remove the journal that a build left when it was killed after it wrote its manifest, or all but removed it."""
    journal = Journal(out)
    if is_in_store(out) or not journal.folder.exists():
        return
    check_own_folder(journal.folder)
    with journal.lock():
        if not journal.is_begun or _is_published(out):  # else it is of an addition that can be continued
            journal.remove()


def _is_published(folder: Path) -> bool:
    """Whether the build here has written its manifest, but was stopped before it removed its journal."""
    journal = Journal(folder)
    if not (folder / MANIFEST_NAME).exists():  # descriptions for others come before it, and can be read in its place
        return False
    try:
        return journal.is_begun and journal.generation <= read_manifest(folder).generation
    except BushelError:
        return False


_AT_ONCE = 16  # small objects read or copied at once


@dataclass(frozen=True)
class OutputStore(OutputFolder):
    """`folder` is on this machine; `deliver_to` is where the dataset grows: at `out`, or next to the one to replace.

    The journal is in `folder`, unless the build `is_spread` over machines that share nothing but the store.
    """

    @property
    def journal(self) -> Journal:
        """The journal of the build that writes here."""
        return StoredJournal(self.target) if self.is_spread else Journal(self.folder)

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Lock the folder, on this machine and in the store."""
        with self.journal.lock(), hold(self.target / JOURNAL_NAME / CLAIM_NAME, self.out) as holding:
            yield holding.check

    @property
    def written_to(self) -> list[SharedFolder]:
        """The folders that tasks write to: one in the store, and one on disk if machines share it."""
        help = "BUSHEL_WORK must name a folder that all nodes share, at the same path."
        work = SharedFolder(self.journal.folder, self.folder.parent, help)
        stored = SharedFolder(self.target / JOURNAL_NAME, self.target, sharing_help(self.target))
        return [stored] if self.is_spread else [work, stored]

    def prepare(self, identity: Identity) -> None:
        """Start here, or continue with what is in the store."""
        there, here = StoredJournal(self.target), self.journal
        is_begun = there.is_begun
        if is_begun and (changed := there.differences(identity)):
            if not self.may_wipe:
                raise unfinished(self.out, changed)
            remove_below(self.target, self.target / JOURNAL_NAME / CLAIM_NAME)
            is_begun = False
        if self.is_spread:
            there.begin(identity)
            there.clean()
        else:
            if here.is_begun and here.differences(identity):
                wipe(self.folder)
            here.begin(identity)
            here.clean()
            if not is_begun:
                there.identify(identity)
            self._continue(there if is_begun else None, identity.digest)
        if self.manifest is not None:
            before = self.out / QUARANTINE_NAME
            (self.folder / QUARANTINE_NAME).write_bytes(before.read_bytes() if before.is_file() else b"")

    def _continue(self, there: Journal | None, build: str) -> None:
        """Take over what the store says is done; what only this machine knows does not count."""
        self.journal.forget_shards()
        if there is None:
            return
        outcomes = delivered(self.target, build)
        for outcome in outcomes:
            self.journal.write(outcome, sync=False)
        refused = [outcome.task for outcome in outcomes if outcome.refused]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda task: _fetch(there.refused_path(task), self.journal.refused_path(task)), refused))

    def bytes_needed(self, plan: Plan, parts: int) -> int:
        """How much disk space of this machine the build takes: sorted runs and a shard; finished ones are uploaded."""
        shard = max(shard.bytes for shard in plan.facts.shards)
        return shard + (plan.run_bytes(parts) if parts and not self.is_spread else 0)

    def show_refused(self) -> None:
        """Make the list of refused samples available although the build stopped."""
        (self.target / QUARANTINE_NAME).write_bytes((self.folder / QUARANTINE_NAME).read_bytes())

    def finish(self) -> None:
        """Upload what is left, the manifest last, and remove what only the build needed."""
        artifacts = self.folder / ARTIFACTS_NAME
        described = sorted(path.name for path in _files(self.folder) if DESCRIPTION.fullmatch(path.name))
        names = [QUARANTINE_NAME, RECIPE_NAME, *described]
        names += [f"{ARTIFACTS_NAME}/{path.name}" for path in sorted(_files(artifacts))]
        for name in (*names, MANIFEST_NAME):
            if (self.folder / name).exists():
                (self.target / name).write_bytes((self.folder / name).read_bytes())
        if self.target != self.out:
            _replace(self.out, self.target)
        else:
            StoredJournal(self.out).remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_up(self) -> None:
        """Remove a build that could not be planned, except for shards that an earlier run uploaded."""
        there = StoredJournal(self.target)
        if not there.has_shards:
            there.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def open_output(out: Path, *, overwrite: bool, append: bool, is_remote: bool = False) -> OutputFolder:
    """Find out what is at `out`, and whether the build may write there; `is_remote` if other machines do its tasks."""
    if overwrite and append:
        raise ValueError("overwrite and append cannot both be given")
    if not is_in_store(out):
        return open_folder(out, overwrite=overwrite, append=append)
    check_writable(out)
    if sibling(out, out.name) is None:
        raise FileProblem(out, "is a bucket", help=[f"Name a folder in it, such as {out / 'data'}"])
    if out.is_file() and not out.is_dir():
        raise FileProblem(out, "is an object, and a dataset is a folder")
    successor = out / SUCCESSOR_NAME
    if (successor / MANIFEST_NAME).is_file():
        with hold(successor / JOURNAL_NAME / CLAIM_NAME, out):
            _replace(out, successor)  # a build was stopped while doing this
    elif _is_published(out):
        StoredJournal(out).remove()  # this was all that was left to do
    is_complete = (out / MANIFEST_NAME).is_file()
    check_before(out, is_complete=is_complete, overwrite=overwrite, append=append)
    is_spread = is_remote and not os.environ.get("BUSHEL_WORK")
    if append:
        return OutputStore(out, _work_folder(out), read_manifest(out), deliver_to=out, is_spread=is_spread)
    check_only_ours(out)
    target = successor if is_complete else out
    return OutputStore(out, _work_folder(target), may_wipe=overwrite, deliver_to=target, is_spread=is_spread)


def _work_folder(target: Path) -> Path:
    """Where a build into a store works: the same folder each time, so that it can be continued."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    work = os.environ.get("BUSHEL_WORK")
    folder = Path(work) if work else home / "bushel" / "builds"
    folder = folder / hashlib.sha256(str(target).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _replace(out: Path, new: Path) -> None:
    """Replace a dataset by a finished one in a folder below it. At any moment, the manifest names a whole dataset.

    The manifest is the switch: the new one first names the files where they are, then where they belong.
    """
    if not (new / MANIFEST_NAME).is_file():
        return  # another build did it in the meantime
    manifest = read_manifest(new)
    _put_manifest(out, msgspec.structs.replace(manifest, root=SUCCESSOR_NAME))
    try:
        _move_up(out, new, manifest)
    except FileProblem as error:
        problem = (
            f"the new dataset is complete and can be read, but was not moved out of {SUCCESSOR_NAME}/: {error.message}"
        )
        raise FileProblem(out, problem, help=["The next build into this folder moves it."]) from None


def _move_up(out: Path, new: Path, manifest: Manifest) -> None:
    """Move a finished dataset to the folder above it, from which all else is removed first."""
    remove_below(out, new, out / MANIFEST_NAME)
    names = [path.parts[len(new.parts) :] for path in paths_below(new)]
    left = [name for name in names if name[0] not in (JOURNAL_NAME, MANIFEST_NAME)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: copy_file(new.joinpath(*name), out.joinpath(*name)), left))
    _put_manifest(out, manifest)
    (new / MANIFEST_NAME).unlink()
    remove_below(new, new / JOURNAL_NAME / CLAIM_NAME)


def _put_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(manifest))


def _fetch(source: Path, target: Path) -> None:
    if source.exists():
        target.write_bytes(source.read_bytes())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def publish(
    output: OutputFolder, recipe: Recipe, plan: Plan, encoder: BlockEncoder, outcomes: Sequence[Outcome]
) -> Manifest:
    """Write everything that is not a shard, and the manifest last."""
    shards = {outcome.path: outcome for outcome in outcomes if outcome.path}
    _check_shards(output, shards.values())
    tasks = [outcome.task for outcome in outcomes if outcome.refused]
    join_quarantines(
        [output.journal.refused_path(task) for task in tasks],
        output.folder / QUARANTINE_NAME,
        keep=output.manifest is not None,
    )
    learnt = keep(encoder.transforms)
    manifest = msgspec.structs.replace(
        _manifest(output, recipe, plan, encoder.schema, encoder.labels, outcomes),
        statistics=learnt.statistics,
        raw=_raw_schema(encoder),
    )
    _write_artifacts(output, plan, manifest, learnt.files)
    if output.manifest is None:
        write_recipe(output.folder / RECIPE_NAME, recipe)
    _describe(output, manifest)
    write_manifest(output.folder, manifest)
    return manifest


def _describe(output: OutputFolder, manifest: Manifest) -> None:
    """Let TensorFlow Datasets read the dataset too. Descriptions of it before samples were appended are removed."""
    files = described_files(manifest)
    if not files and output.manifest is not None:
        for name in filter(DESCRIPTION.fullmatch, sizes_in(output.target)):
            (output.target / name).unlink()
    for name, data in files.items():
        with write_whole(output.folder / name) as file:
            file.write(data)


def _raw_schema(encoder: BlockEncoder) -> Schema | None:
    """The schema of raw samples, for preparing more like these later."""
    raw = msgspec.structs.replace(encoder.source_schema, statistics={})
    return None if raw.features == encoder.schema.features else raw


def _check_shards(output: OutputFolder, outcomes: Any) -> None:
    sizes = sizes_in(output.target)
    for outcome in outcomes:
        if sizes.get(outcome.path) != outcome.bytes:
            raise FileProblem(
                output.out / outcome.path, "has changed since it was written", help=["Build it again with --overwrite."]
            )


def _manifest(
    output: OutputFolder, recipe: Recipe, plan: Plan, schema: Schema, labels: Labels | None, outcomes: Sequence[Outcome]
) -> Manifest:
    before = output.manifest
    splits = dict(before.splits) if before else {}
    by_path = {outcome.path: outcome for outcome in outcomes if outcome.path}
    for name in dict.fromkeys(shard.split for shard in plan.facts.shards):
        written = [by_path[shard.file_name(recipe.compression)] for shard in plan.facts.shards if shard.split == name]
        splits[name] = _split(splits.get(name), written, plan.facts.shards[0].generation, labels)
    counted = Counter(plan.facts.counted)
    for outcome in outcomes:
        counted.update(outcome.counted)
    train = find(splits, TRAIN)
    return Manifest(
        splits=splits,
        schema=schema,
        label=labels.described(dict(splits[train].label_counts) if train else {}) if labels else None,
        compression=recipe.compression,
        recipe=before.recipe if before else msgspec.to_builtins(recipe),
        seed=recipe.seed,
        balance=_balance(before.balance if before else None, plan.facts.balance),
        refused=sum(outcome.refused for outcome in by_path.values()) + (before.refused if before else 0),
        counted=dict(counted + Counter(before.counted if before else {})),
        narrowed=largest_narrowings(outcomes, before.narrowed if before else {}),
        appended=[*before.appended, recipe.source] if before else [],
        versions=versions(),
        generation=plan.facts.shards[0].generation,
    )


def _balance(before: Balanced | None, added: Balanced | None) -> Balanced | None:
    """What was done to the classes of train, in all generations."""
    if before is None or added is None:
        return before or added
    counts = [dict(Counter(getattr(before, name)) + Counter(getattr(added, name))) for name in ("before", "after")]
    return msgspec.structs.replace(before, before=counts[0], after=counts[1])


def _split(before: SplitEntry | None, written: Sequence[Outcome], generation: int, labels: Labels | None) -> SplitEntry:
    shards = [
        ShardEntry(
            path=outcome.path,
            records=outcome.records,
            bytes=outcome.bytes,
            sha256=outcome.sha256,
            digest=outcome.digest,
            refused=outcome.refused,
            generation=generation,
        )
        for outcome in written
    ]
    counts: Counter[str] = Counter(before.label_counts if before else {})
    for outcome in written:
        counts.update(outcome.label_counts)
    return SplitEntry(shards=[*(before.shards if before else []), *shards], label_counts=_in_order(counts, labels))


def _in_order(counts: Counter[str], labels: Labels | None) -> dict[str, int]:
    if labels is not None and labels.names:
        return {name: counts[name] for name in labels.names if counts[name]}
    return {name: counts[name] for name in sorted(counts, key=int)}


def largest_narrowings(outcomes: Sequence[Outcome], before: dict[str, float]) -> dict[str, float]:
    """The largest narrowing of each feature over all tasks."""
    found = dict(before)
    for outcome in outcomes:
        for name, (by, _) in outcome.narrowed.items():
            found[name] = max(by, found.get(name, 0.0))
    return dict(sorted(found.items()))


def _write_artifacts(output: OutputFolder, plan: Plan, manifest: Manifest, files: dict[str, bytes]) -> None:
    kept: dict[str, Any] = {}
    if plan.facts.bounds:
        kept[BOUNDS_NAME] = plan.facts.bounds
    if manifest.label is not None and manifest.label.names:
        kept["label.json"] = manifest.label.names
    encoded = {name: msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n" for name, value in kept.items()}
    for name, data in {**encoded, **files}.items():
        (output.folder / ARTIFACTS_NAME).mkdir(exist_ok=True)
        with write_whole(output.folder / ARTIFACTS_NAME / name) as file:
            file.write(data)


def check_outside(source: Source, out: Path) -> None:
    """Refuse to write into the source: the dataset would become part of it."""
    path = source.describe().get("path")
    if not isinstance(path, str | PathLike) or is_address(path) or not as_path(path).is_dir():
        return
    inside, folder = out.resolve(), as_path(path).resolve()
    if inside != folder and inside.is_relative_to(folder):
        raise FileProblem(out, f"is inside its own source, {path}", help=["Choose a folder outside of it."])


_KEY_HELP = "The key shows which samples the dataset has already: --key COL"


def same_recipe(output: OutputFolder, recipe: Recipe, source: dict[str, Any]) -> Recipe:
    """The recipe with its source; for an addition, the recipe of the dataset, which it must not contradict."""
    if output.manifest is None:
        return msgspec.structs.replace(recipe, source=source)
    with understood(output.out / MANIFEST_NAME, "its recipe cannot be read"):
        make_from_data(output.manifest.recipe.get("transforms", ()), output.out)  # before files that it names are read
        before = msgspec.convert(output.manifest.recipe, Recipe)
    default = Recipe()
    if source.get("key") != before.source.get("key"):
        raise FileProblem(
            output.out,
            f"was built with key {before.source.get('key')!r}, and what is added must be too",
            help=[_KEY_HELP],
        )
    for name in Recipe.__struct_fields__:
        mine, theirs = getattr(recipe, name), getattr(before, name)
        if name not in ("source", "out", "limit") and mine not in (getattr(default, name), theirs):
            raise FileProblem(
                output.out, f"was built with {name} {theirs!r}, and what is added must be too; got {mine!r}"
            )
    return msgspec.structs.replace(before, source=source, limit=recipe.limit)


def built_before(out: Path, recipe: Recipe, source: Source, transforms: Sequence[Transform]) -> Manifest | None:
    """The manifest of a dataset at `out` that this build would only make again, as far as shows without reading.

    So it is if the recipe is the same, no file of the source is newer, and the source has no other keys.
    """
    described = source.describe()
    if "path" not in described or code_of(transforms) or not (as_path(out) / MANIFEST_NAME).exists():
        return None
    manifest = read_manifest(out)
    same = msgspec.structs.replace(recipe, source=described, out=None)
    if manifest.generation or manifest.versions != versions() or manifest.recipe != msgspec.to_builtins(same):
        return None
    if may_have_changed(paths_in(described), since=as_path(out) / MANIFEST_NAME):
        return None
    is_whole = all((out / s.path).exists() for split in manifest.splits.values() for s in split.shards)
    return manifest if is_whole and (recipe.balance or recipe.limit or _has_same_keys(out, manifest, source)) else None


def _has_same_keys(out: Path, manifest: Manifest, source: Source) -> bool:
    """Whether the dataset has all samples of the source, but for those that were refused."""
    try:
        known = OutputFolder(out, out, manifest).known_keys()
    except FileProblem:
        return False
    keys = np.concatenate([hash_values(source.list(number, []).keys) for number in range(source.partitions())])
    if known is None or len(keys) - len(known) != manifest.refused:
        return False
    return int(np.isin(keys, known).sum()) == len(known)


def check_schema(output: OutputFolder, made: Plan) -> None:
    """Refuse an addition whose features differ from those of the dataset."""
    if output.manifest is None:
        return
    if found := output.manifest.schema.differences(made.facts.schema):
        raise FileProblem(
            output.out,
            f"the samples to add differ from those in the dataset: {found[0]}",
            help=[str(difference) for difference in found[1:3]],
        )
