"""Where a build writes: a new folder, one where a build was stopped, one beside a dataset to replace, or a dataset."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.building.output.journal import JOURNAL_NAME, Identity, Journal
from bushel.building.output.quarantine import QUARANTINE_NAME
from bushel.building.planning.draft import Frozen
from bushel.building.recipe import RECIPE_NAME
from bushel.errors import FileProblem
from bushel.records.index import load_index
from bushel.records.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest, read_manifest
from bushel.storage import shard_paths, sync_folder
from bushel.storage.compression import SHARD_CODECS

__all__ = ["OutputFolder", "check_before", "check_only_ours", "open_folder", "wipe"]

BOUNDS_NAME = "split.json"
_OURS = {MANIFEST_NAME, RECIPE_NAME, QUARANTINE_NAME, JOURNAL_NAME, ARTIFACTS_NAME, "_index"}
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
        """Start here or continue. Where everything may be replaced, so may another unfinished build."""
        if self.may_wipe and self.journal.is_begun and self.journal.differences(identity):
            wipe(self.folder)
        self.journal.begin(identity)
        self.journal.clean()

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Lock the folder. The function returned raises if another build took it over nevertheless."""
        with self.journal.lock():
            yield lambda: None

    @property
    def written_to(self) -> list[Path]:
        """The folders that tasks write to."""
        return [self.journal.folder]

    @property
    def target(self) -> Path:
        """Where finished shards are."""
        return self.deliver_to or self.folder

    def bytes_needed(self, planned: int, *, in_runs: bool) -> int:
        """How much of the disk the build takes."""
        return planned * (2 if in_runs else 1)

    def show_refused(self) -> None:
        """Put the list of refused samples where it can be read, although the build stopped; it is there already."""

    def finish(self) -> None:
        """Let the finished dataset replace the one before, and remove what only the build needed."""
        if self.folder != self.out:
            replaced = _replaced(self.out)
            self.out.rename(replaced)
            self.folder.rename(self.out)
            sync_folder(self.out.parent)
            shutil.rmtree(replaced)
        Journal(self.out).remove()

    def give_up(self) -> None:
        """Remove a build that could not be planned, except for shards that an earlier run finished."""
        if self.journal.has_shards:
            return
        self.journal.remove()
        with suppress(OSError):  # it is not empty: it holds the dataset to add to
            self.folder.rmdir()


def open_folder(out: Path, *, overwrite: bool, append: bool) -> OutputFolder:
    """Find out what is at `out`, and whether the build may write there."""
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, and a dataset is a folder")
    _finish_swap(out)
    is_complete = (out / MANIFEST_NAME).exists()
    check_before(out, is_complete=is_complete, overwrite=overwrite, append=append)
    if append:
        return OutputFolder(out, out, _manifest_to_add_to(out))
    check_only_ours(out)
    folder = _beside(out) if is_complete else out
    folder.mkdir(parents=True, exist_ok=True)
    return OutputFolder(out, folder, may_wipe=overwrite)


def check_before(out: Path, *, is_complete: bool, overwrite: bool, append: bool) -> None:
    """Refuse to add to a dataset that is not there, and to replace one unasked."""
    if append and not is_complete:
        raise FileProblem(out, "there is no finished dataset here to add to", help=["Leave out --append."])
    if is_complete and not overwrite and not append:
        raise FileProblem(
            out,
            "is a finished dataset already",
            help=["To replace it: --overwrite", "To add samples that it does not have: --append"],
        )


def _manifest_to_add_to(out: Path) -> Manifest:
    manifest = read_manifest(out)
    journal = Journal(out)
    if journal.is_begun and journal.generation <= manifest.generation:
        journal.remove()  # it was published; only this was left to do
    return manifest


def check_only_ours(out: Path) -> None:
    """Refuse a folder with files that no build wrote."""
    if not out.exists():
        return
    for path in sorted(out.iterdir()):
        if path.name not in _OURS and not _SHARD.search(path.name):
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
    for path in folder.iterdir():
        if path.name != JOURNAL_NAME:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _beside(out: Path) -> Path:
    return out.with_name(f".{out.name}.new")


def _replaced(out: Path) -> Path:
    return out.with_name(f".{out.name}.replaced")


def _finish_swap(out: Path) -> None:
    """Finish for a build that was killed while it replaced a dataset."""
    replaced = _replaced(out)
    if not replaced.exists():
        return
    if not out.exists():
        (_beside(out) if (_beside(out) / MANIFEST_NAME).exists() else replaced).rename(out)
    if replaced.exists():
        shutil.rmtree(replaced)
