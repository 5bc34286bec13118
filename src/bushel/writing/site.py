"""Where a build writes: into a new folder, where one was stopped, beside what it replaces, or into a dataset."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import FileProblem
from bushel.index import load_index
from bushel.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest, read_manifest
from bushel.storage import sync_folder
from bushel.writing.journal import JOURNAL_NAME, Identity, Journal
from bushel.writing.planning import Frozen
from bushel.writing.quarantine import QUARANTINE_NAME
from bushel.writing.recipe import RECIPE_NAME

__all__ = ["Site", "open_site"]

BOUNDS_NAME = "split.json"
_OURS = {MANIFEST_NAME, RECIPE_NAME, QUARANTINE_NAME, JOURNAL_NAME, ARTIFACTS_NAME, "_index"}
_SHARD = re.compile(r".+-\d{5}-of-\d{5}\.tfrecord(\.gz|\.zz)?$|^\..*\.partial$")


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
        path = self.folder / ARTIFACTS_NAME / BOUNDS_NAME
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
        for split in self.manifest.splits.values():
            for shard in split.shards:
                index = load_index(self.folder / shard.path)
                if index is None or "key" not in index.values:
                    raise FileProblem(self.folder / shard.path, "has no index with keys, so nothing can be added")
                found.append(np.asarray(index.values["key"]))
        return np.concatenate([*found, np.empty(0, np.uint64)])

    def prepare(self, identity: Identity) -> None:
        """Begin here, or continue; where everything may be replaced, another unfinished build is."""
        if self.may_wipe and self.journal.is_begun and self.journal.differences(identity):
            _wipe(self.folder)
        self.journal.begin(identity)
        self.journal.clean()

    def swap(self) -> None:
        """Put the finished dataset into the place of the one before."""
        if self.folder == self.out:
            return
        replaced = _replaced(self.out)
        self.out.rename(replaced)
        self.folder.rename(self.out)
        sync_folder(self.out.parent)
        shutil.rmtree(replaced)


def open_site(out: Path, *, overwrite: bool, append: bool) -> Site:
    """Find out what is at `out`, and whether the build may go there."""
    if overwrite and append:
        raise ValueError("overwrite and append cannot both be given")
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, and a dataset is a folder")
    _finish_swap(out)
    is_complete = (out / MANIFEST_NAME).exists()
    if append:
        if not is_complete:
            raise FileProblem(out, "there is no finished dataset here to add to", help=["Leave out --append."])
        return _open_to_append(out)
    if is_complete and not overwrite:
        raise FileProblem(
            out,
            "is a finished dataset already",
            help=["To replace it: --overwrite", "To add samples that it does not have: --append"],
        )
    _check_only_ours(out)
    folder = _beside(out) if is_complete else out
    folder.mkdir(parents=True, exist_ok=True)
    return Site(out, folder, may_wipe=overwrite)


def _open_to_append(out: Path) -> Site:
    manifest = read_manifest(out)
    journal = Journal(out)
    if journal.is_begun and journal.generation <= manifest.generation:
        journal.remove()  # it was published; only this was left to do
    return Site(out, out, manifest)


def _check_only_ours(out: Path) -> None:
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


def _wipe(folder: Path) -> None:
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
