"""Where a build writes: into a new folder, where one was stopped, beside what it replaces, or into a dataset."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.building.output.journal import JOURNAL_NAME, Identity, Journal
from bushel.building.output.quarantine import QUARANTINE_NAME
from bushel.building.planning.plan_making import Frozen
from bushel.building.recipe import RECIPE_NAME
from bushel.errors import FileProblem
from bushel.records.index import load_index
from bushel.records.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest, read_manifest
from bushel.storage import is_object, shard_paths, sync_folder
from bushel.storage.compression import SHARD_CODECS

if TYPE_CHECKING:
    from bushel.building.output.output_store import Delivery

__all__ = ["Site", "open_site"]

BOUNDS_NAME = "split.json"
_OURS = {MANIFEST_NAME, RECIPE_NAME, QUARANTINE_NAME, JOURNAL_NAME, ARTIFACTS_NAME, "_index"}
_SUFFIXES = "|".join(re.escape(codec.suffixes[0]) for codec in SHARD_CODECS.values())
_SHARD = re.compile(rf".+-\d{{5}}-of-\d{{5}}\.tfrecord({_SUFFIXES})?$|^\..*\.partial$")


@dataclass(frozen=True)
class Site:
    """`out` is where the dataset will be, `folder` where it is written until it is complete."""

    out: Path
    folder: Path
    manifest: Manifest | None = None  # of the dataset that is added to
    may_wipe: bool = False

    @property
    def journal(self) -> Journal:
        """Of the build that writes here."""
        return Journal(self.folder)

    @property
    def frozen(self) -> Frozen | None:
        """What an addition may not change."""
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
        """Hashes of the keys of all records that are there."""
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
        """Begin here, or continue; where everything may be replaced, another unfinished build is."""
        if self.may_wipe and self.journal.is_begun and self.journal.differences(identity):
            wipe(self.folder)
        self.journal.begin(identity)
        self.journal.clean()

    @contextmanager
    def hold(self) -> Iterator[Callable[[], None]]:
        """Keep other builds away for as long as this one lives; what is given raises if one came nevertheless."""
        with self.journal.lock():
            yield lambda: None

    @property
    def written_to(self) -> list[Path]:
        """Where tasks write."""
        return [self.journal.folder]

    @property
    def delivery(self) -> Delivery | None:
        """Where tasks hand over what they finished; None where they write it into its place."""
        return None

    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by name: one listing."""
        with os.scandir(self.folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def bytes_needed(self, planned: int, *, in_runs: bool) -> int:
        """How much of the disk the build takes."""
        return planned * (2 if in_runs else 1)

    def show_refused(self) -> None:
        """Let what was refused be seen, although the build stopped: it is where it can be."""

    def finish(self) -> None:
        """Put the finished dataset into the place of the one before, and remove what only the build needed."""
        if self.folder != self.out:
            replaced = _replaced(self.out)
            self.out.rename(replaced)
            self.folder.rename(self.out)
            sync_folder(self.out.parent)
            shutil.rmtree(replaced)
        Journal(self.out).remove()

    def give_up(self) -> None:
        """Leave nothing of a build that could not be planned, but for shards that an earlier start finished."""
        if self.journal.has_shards:
            return
        self.journal.remove()
        with suppress(OSError):  # it is not empty: a dataset that was to be added to
            self.folder.rmdir()


def open_site(out: Path, *, overwrite: bool, append: bool) -> Site:
    """Find out what is at `out`, and whether the build may go there."""
    if overwrite and append:
        raise ValueError("overwrite and append cannot both be given")
    if is_object(out):
        from bushel.building.output.output_store import open_object_site

        return open_object_site(out, overwrite=overwrite, append=append)
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, and a dataset is a folder")
    _finish_swap(out)
    is_complete = (out / MANIFEST_NAME).exists()
    check_before(out, is_complete=is_complete, overwrite=overwrite, append=append)
    if append:
        return _open_to_append(out)
    check_only_ours(out)
    folder = _beside(out) if is_complete else out
    folder.mkdir(parents=True, exist_ok=True)
    return Site(out, folder, may_wipe=overwrite)


def check_before(out: Path, *, is_complete: bool, overwrite: bool, append: bool) -> None:
    """Refuse to add to what is not there, and to replace what was not to be."""
    if append and not is_complete:
        raise FileProblem(out, "there is no finished dataset here to add to", help=["Leave out --append."])
    if is_complete and not overwrite and not append:
        raise FileProblem(
            out,
            "is a finished dataset already",
            help=["To replace it: --overwrite", "To add samples that it does not have: --append"],
        )


def _open_to_append(out: Path) -> Site:
    manifest = read_manifest(out)
    journal = Journal(out)
    if journal.is_begun and journal.generation <= manifest.generation:
        journal.remove()  # it was published; only this was left to do
    return Site(out, out, manifest)


def check_only_ours(out: Path) -> None:
    """Refuse a folder that holds what no build wrote."""
    if not out.exists():
        return
    for path in sorted(out.iterdir()):
        if path.name not in _OURS and not _SHARD.search(path.name):
            raise FileProblem(
                out, f"holds {path.name!r}, which no build wrote", help=["Choose a new folder, or move that away."]
            )
    names = {path.name for path in out.iterdir()}
    if names and not names & {MANIFEST_NAME, JOURNAL_NAME}:
        raise FileProblem(
            out, "holds files, but neither a dataset nor a build that can be continued", help=["Choose a new folder."]
        )


def wipe(folder: Path) -> None:
    """Forget an unfinished build, but hold its folder."""
    Journal(folder).empty()
    for path in folder.iterdir():
        if path.name != JOURNAL_NAME:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _beside(out: Path) -> Path:
    return out.with_name(f".{out.name}.new")


def _replaced(out: Path) -> Path:
    return out.with_name(f".{out.name}.replaced")


def _finish_swap(out: Path) -> None:
    """A build was killed while it put its dataset into place: do what was left."""
    replaced = _replaced(out)
    if not replaced.exists():
        return
    if not out.exists():
        (_beside(out) if (_beside(out) / MANIFEST_NAME).exists() else replaced).rename(out)
    if replaced.exists():
        shutil.rmtree(replaced)
