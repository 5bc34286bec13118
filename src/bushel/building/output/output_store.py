"""Building into an object store: tasks work in a folder on this machine, and upload what is finished.

A shard is uploaded with its index and keys, then an object in the journal that says so; the manifest comes last. A
build that is started again, here or elsewhere, lists what is there and makes the rest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bushel.building.output.journal import JOURNAL_NAME, Identity, Journal, unfinished
from bushel.building.output.output_folder import OutputFolder, check_before, check_only_ours, open_folder, wipe
from bushel.building.output.quarantine import QUARANTINE_NAME
from bushel.building.recipe import RECIPE_NAME
from bushel.errors import FileProblem
from bushel.records.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest, read_manifest
from bushel.storage import copy_file, local_paths, paths_below, remove_below, sibling, sizes_in
from bushel.storage.lock import hold

__all__ = ["OutputStore", "open_output"]

_CLAIM = "claim.json"
_AT_ONCE = 16  # small objects that are read or copied


@dataclass(frozen=True)
class OutputStore(OutputFolder):
    """`folder` is on this machine; `deliver_to` is where the dataset grows: at `out`, or beside the one to replace."""

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Lock the folder, on this machine and in the store."""
        with self.journal.lock(), hold(self.target / JOURNAL_NAME / _CLAIM, self.out) as holding:
            yield holding.check

    @property
    def written_to(self) -> list[Path]:
        """The folders that tasks write to: one on disk, and one in the store."""
        return [self.journal.folder, self.target / JOURNAL_NAME]

    def prepare(self, identity: Identity) -> None:
        """Start here, or continue with what is in the store."""
        there, here = Journal(self.target), self.journal
        is_begun = there.is_begun
        if is_begun and (changed := there.differences(identity)):
            if not self.may_wipe:
                raise unfinished(self.out, changed)
            remove_below(self.target, keep=self.target / JOURNAL_NAME / _CLAIM)
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
        """Take over what is done according to the store; what only this machine knows does not count."""
        self.journal.forget_shards()
        if there is None:
            return
        sizes = sizes_in(self.target)
        outcomes = [found for found in there.all_outcomes(_AT_ONCE) if sizes.get(found.path) == found.bytes]
        for outcome in outcomes:
            self.journal.write(outcome, sync=False)
        refused = [outcome.task for outcome in outcomes if outcome.refused]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda task: _fetch(there.refused_path(task), self.journal.refused_path(task)), refused))

    def bytes_needed(self, planned: int, *, in_runs: bool) -> int:
        """How much of this machine's disk the build takes: sorted runs, since finished shards are uploaded."""
        return planned if in_runs else 0

    def show_refused(self) -> None:
        """Put the list of refused samples where it can be read, although the build stopped."""
        (self.target / QUARANTINE_NAME).write_bytes((self.folder / QUARANTINE_NAME).read_bytes())

    def finish(self) -> None:
        """Upload what is left, the manifest last, and remove what only the build needed."""
        artifacts = self.folder / ARTIFACTS_NAME
        names = [QUARANTINE_NAME, RECIPE_NAME, *(f"{ARTIFACTS_NAME}/{path.name}" for path in sorted(_files(artifacts)))]
        for name in (*names, MANIFEST_NAME):
            if (self.folder / name).exists():
                (self.target / name).write_bytes((self.folder / name).read_bytes())
        if self.target != self.out:
            _replace(self.out, self.target)
        remove_journal(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_up(self) -> None:
        """Remove a build that could not be planned, except for shards that an earlier run uploaded."""
        if not Journal(self.target).has_shards:
            remove_journal(self.target)
        shutil.rmtree(self.folder, ignore_errors=True)


def open_output(out: Path, *, overwrite: bool, append: bool) -> OutputFolder:
    """Find out what is at `out`, and whether the build may write there."""
    if overwrite and append:
        raise ValueError("overwrite and append cannot both be given")
    if local_paths([out]):
        return open_folder(out, overwrite=overwrite, append=append)
    if sibling(out, out.name) is None:
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
        return OutputStore(out, _work_folder(out), _manifest_to_add_to(out), deliver_to=out)
    check_only_ours(out)
    target = beside if is_complete else out
    return OutputStore(out, _work_folder(target), may_wipe=overwrite, deliver_to=target)


def _manifest_to_add_to(out: Path) -> Manifest:
    manifest = read_manifest(out)
    journal = Journal(out)
    if journal.is_begun and journal.generation <= manifest.generation:
        remove_journal(out)  # it was published; only this was left to do
    return manifest


def _work_folder(target: Path) -> Path:
    """Where a build into a store works: the same folder each time, so that it can be continued."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    work = os.environ.get("BUSHEL_WORK")
    folder = Path(work) if work else home / "bushel" / "builds"
    folder = folder / hashlib.sha256(str(target).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _replace(out: Path, new: Path) -> None:
    """Let a finished dataset replace another; until its manifest is copied, there is none."""
    (out / MANIFEST_NAME).unlink()
    remove_below(out)
    names = [path.parts[len(new.parts) :] for path in paths_below(new)]
    left = [name for name in names if name[0] not in (JOURNAL_NAME, MANIFEST_NAME)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: copy_file(new.joinpath(*name), out.joinpath(*name)), left))
    copy_file(new / MANIFEST_NAME, out / MANIFEST_NAME)
    (new / MANIFEST_NAME).unlink()
    remove_below(new)


def remove_journal(folder: Path) -> None:
    """Remove a journal. The file that identifies the build goes first, so that half a journal is none."""
    (folder / JOURNAL_NAME / "build.json").unlink()
    remove_below(folder / JOURNAL_NAME)


def _fetch(source: Path, target: Path) -> None:
    if source.exists():
        target.write_bytes(source.read_bytes())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
