"""Building into an object store: tasks work in a folder of this machine, and hand over what is finished.

A shard is uploaded with its index and its keys, and then one object of the journal says so; the manifest comes last. A
build that is started again, here or elsewhere, lists what is there and makes the rest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bushel.building.output.journal import JOURNAL_NAME, Identity, Journal, Outcome, unfinished
from bushel.building.output.output_folder import Site, check_before, check_only_ours, wipe
from bushel.building.output.quarantine import QUARANTINE_NAME
from bushel.building.output.store_lock import hold
from bushel.building.recipe import RECIPE_NAME
from bushel.building.tasks.shard_files import keys_path
from bushel.errors import FileProblem
from bushel.records.index import index_path, load_index, save_index, tie_of
from bushel.records.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest, read_manifest
from bushel.storage import ObjectPath

__all__ = ["Delivery", "ObjectSite", "open_object_site"]

_CLAIM = "claim.json"
_AT_ONCE = 16  # small objects that are read or copied


@dataclass(frozen=True)
class Delivery:
    """Where tasks hand over what they finished."""

    target: ObjectPath

    def take(self, folder: Path, outcome: Outcome) -> None:
        """Upload a shard and what belongs to it, note that it is there, and let go of it here."""
        journal, path = Journal(folder), folder / outcome.path
        status = (self.target / outcome.path).put(path)
        index = load_index(path)
        assert index is not None, "a shard is written with its index"
        tie = msgspec.structs.replace(tie_of(path), etag=status.etag, mtime_ns=0)
        save_index(self.target / outcome.path, index, tie=tie)
        _object(keys_path(self.target / outcome.path)).put(keys_path(path))
        refused = journal.refused_path(outcome.task)
        if refused.exists():
            _object(Journal(self.target).refused_path(outcome.task)).put(refused)
        Journal(self.target).write(outcome)
        for done in (path, index_path(path), keys_path(path)):
            done.unlink()


@dataclass(frozen=True)
class ObjectSite(Site):
    """`folder` is on this machine; `target` is where the dataset grows: at `out`, or beside what it replaces."""

    target: ObjectPath = field(kw_only=True)

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Keep other builds away, on this machine and on others."""
        with self.journal.lock(), hold(self.target / JOURNAL_NAME / _CLAIM, self.out) as holding:
            yield holding.check

    @property
    def written_to(self) -> list[Path]:
        """Where tasks write: a folder of machines, and the store."""
        return [self.journal.folder, self.target / JOURNAL_NAME]

    @property
    def delivery(self) -> Delivery | None:
        """To where tasks deliver."""
        return Delivery(self.target)

    def prepare(self, identity: Identity) -> None:
        """Begin here, or continue with what is in the store."""
        there, here = Journal(self.target), self.journal
        is_begun = there.is_begun
        if is_begun and (changed := there.differences(identity)):
            if not self.may_wipe:
                raise unfinished(self.out, changed)
            self.target.remove_below(keep=self.target / JOURNAL_NAME / _CLAIM)
            is_begun = False
        if here.is_begun and here.differences(identity):
            wipe(self.folder)
        here.begin(identity)
        here.clean()
        if not is_begun:
            there.identify(identity)
        self._continue(there if is_begun else None)
        if self.manifest is not None:
            before = self.out / QUARANTINE_NAME
            (self.folder / QUARANTINE_NAME).write_bytes(before.read_bytes() if before.is_file() else b"")

    def _continue(self, there: Journal | None) -> None:
        """Take over what the store says is done; what only this machine says is not."""
        self.journal.forget_shards()
        if there is None:
            return
        sizes = self.sizes()
        outcomes = [found for found in there.all_outcomes(_AT_ONCE) if sizes.get(found.path) == found.bytes]
        for outcome in outcomes:
            self.journal.write(outcome, sync=False)
        refused = [outcome.task for outcome in outcomes if outcome.refused]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda task: _fetch(there.refused_path(task), self.journal.refused_path(task)), refused))

    def sizes(self) -> dict[str, int]:
        """Bytes of each object, by name: one listing."""
        return {path.name: path.known.size for path in self.target.iterdir() if path.known is not None}

    def bytes_needed(self, planned: int, *, in_runs: bool) -> int:
        """How much of this machine's disk the build takes: runs of records; shards leave as they are finished."""
        return planned if in_runs else 0

    def show_refused(self) -> None:
        """Let what was refused be seen, although the build stopped."""
        (self.target / QUARANTINE_NAME).write_bytes((self.folder / QUARANTINE_NAME).read_bytes())

    def finish(self) -> None:
        """Upload what is left, the manifest last, and remove what only the build needed."""
        artifacts = self.folder / ARTIFACTS_NAME
        names = [QUARANTINE_NAME, RECIPE_NAME, *(f"{ARTIFACTS_NAME}/{path.name}" for path in sorted(_files(artifacts)))]
        for name in (*names, MANIFEST_NAME):
            if (self.folder / name).exists():
                (self.target / name).write_bytes((self.folder / name).read_bytes())
        if self.target != self.out:
            _replace(_object(self.out), self.target)
        remove_journal(_object(self.out))
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_up(self) -> None:
        """Leave nothing of a build that could not be planned, but for shards that an earlier start delivered."""
        if not Journal(self.target).has_shards:
            remove_journal(self.target)
        shutil.rmtree(self.folder, ignore_errors=True)


def open_object_site(out: Path, *, overwrite: bool, append: bool) -> ObjectSite:
    """Find out what is at `out` in a store, and whether the build may go there."""
    assert isinstance(out, ObjectPath)
    if not out.key.name:
        raise FileProblem(out, "is a bucket", help=[f"Name a folder in it, such as {out / 'data'}"])
    if out.is_file() and not out.is_dir():
        raise FileProblem(out, "is an object, and a dataset is a folder")
    beside = out.with_name(f".{out.name}.new")
    if (beside / MANIFEST_NAME).is_file():
        _replace(out, beside)  # a build was stopped while it did this
        remove_journal(out)
    is_complete = (out / MANIFEST_NAME).is_file()
    check_before(out, is_complete=is_complete, overwrite=overwrite, append=append)
    if append:
        return ObjectSite(out, _work_folder(out), _manifest_to_add_to(out), target=out)
    check_only_ours(out)
    target = beside if is_complete else out
    return ObjectSite(out, _work_folder(target), may_wipe=overwrite, target=target)


def _manifest_to_add_to(out: ObjectPath) -> Manifest:
    manifest = read_manifest(out)
    journal = Journal(out)
    if journal.is_begun and journal.generation <= manifest.generation:
        remove_journal(out)  # it was published; only this was left to do
    return manifest


def _work_folder(target: ObjectPath) -> Path:
    """Where a build into a store works: the same folder each time, so that it is continued."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    work = os.environ.get("BUSHEL_WORK")
    folder = Path(work) if work else home / "bushel" / "builds"
    folder = folder / hashlib.sha256(str(target).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _replace(out: ObjectPath, new: ObjectPath) -> None:
    """Put a finished dataset into the place of another; until its manifest is there, there is none."""
    (out / MANIFEST_NAME).unlink()
    out.remove_below()
    names = [path.parts[len(new.parts) :] for path in new.below()]
    left = [name for name in names if name[0] not in (JOURNAL_NAME, MANIFEST_NAME)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: new.joinpath(*name).copy_to(out.joinpath(*name)), left))
    (new / MANIFEST_NAME).copy_to(out / MANIFEST_NAME)
    (new / MANIFEST_NAME).unlink()
    new.remove_below()


def remove_journal(folder: ObjectPath) -> None:
    """What says that a build is here goes first, so that half a journal is none."""
    (folder / JOURNAL_NAME / "build.json").unlink()
    (folder / JOURNAL_NAME).remove_below()


def _object(path: Path) -> ObjectPath:
    assert isinstance(path, ObjectPath)
    return path


def _fetch(source: Path, target: Path) -> None:
    if source.exists():
        target.write_bytes(source.read_bytes())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
