"""What a build has done so far, in files that a resumed build reads, and the samples that it refused."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from bushel import __version__, _native
from bushel.building.recipe import changed_code
from bushel.errors import FileProblem, FormatError
from bushel.parallel import map_in_threads
from bushel.records.index import read_made
from bushel.storage import empty_folder, give_name, remove_below, sizes_in, whole_path, write_whole
from bushel.storage.whole_folders import boot_of_machine

__all__ = [
    "JOURNAL_NAME",
    "QUARANTINE_NAME",
    "Identity",
    "Journal",
    "Outcome",
    "Quarantine",
    "Quarantined",
    "join_quarantines",
    "read_quarantine",
    "versions",
]


JOURNAL_NAME = "_journal"
CLAIM_NAME = "claim.json"
_AT_ONCE = 16  # small objects read at once
_CODECS = ("isal", "pillow", "pyarrow", "simplejpeg")


def versions() -> dict[str, str]:
    """The versions of bushel and of everything else that decides bytes."""
    found = {"bushel": __version__}
    for name in _CODECS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    libraries = (library.rpartition(" ") for library in _native.codecs().values() if library)
    return found | {name: version for name, _, version in libraries}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What must be the same for a build to be the same build."""

    recipe: dict[str, Any]
    fingerprint: str  # of the source
    versions: dict[str, str]
    generation: int = 0
    code: dict[str, str] = {}  # digests of custom transforms

    @property
    def digest(self) -> str:
        """A name for this build."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    def differences(self, other: Identity) -> list[str]:
        """How `other` differs, as text."""
        found = [
            f"{name} is {other.recipe.get(name)!r}, was {self.recipe.get(name)!r}"
            for name in sorted({*self.recipe, *other.recipe})
            if self.recipe.get(name) != other.recipe.get(name)
        ]
        if self.fingerprint != other.fingerprint and not found:
            found.append("the files of the source have changed")
        for name in sorted({*self.versions, *other.versions}):
            mine, theirs = self.versions.get(name), other.versions.get(name)
            if mine != theirs:
                found.append(f"{name} is version {theirs}, was {mine}")
        found += [f"the code of {name} has changed" for name in changed_code(self.code, other.code)]
        if self.generation != other.generation:
            found.append(f"generation is {other.generation}, was {self.generation}")
        return found


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one task did. The outcome of a shard has digests; that of a partition does not."""

    task: str
    samples: int
    records: int
    bytes: int
    refused: int = 0
    path: str = ""
    sha256: str = ""
    digest: str = ""
    label_counts: dict[str, int] = {}
    narrowed: dict[str, tuple[float, float]] = {}
    counted: dict[str, int] = {}


def unfinished(out: Path, changed: list[str]) -> FileProblem:
    """The error for a folder where another build has not finished."""
    return FileProblem(
        out,
        f"another build was started here and did not finish: {'; '.join(changed)}",
        help=["Run it as it was to continue it, or with --overwrite to start over."],
    )


def delivered(target: Path, build: str) -> list[Outcome]:
    """The outcomes of the shards in a store that this build has delivered, as their indexes have them."""
    sizes = sizes_in(target)
    indexes = [path for path in (target / "_index").iterdir() if path.suffix == ".idx"]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = [made for made in pool.map(read_made, indexes) if made and made.build == build]
    outcomes = [msgspec.json.decode(made.outcome, type=Outcome) for made in found]
    return [outcome for outcome in outcomes if sizes.get(outcome.path) == outcome.bytes]


class Journal:
    """The journal of the build that writes into one folder."""

    def __init__(self, out: Path) -> None:
        self.folder = out / JOURNAL_NAME
        self.plan = self.folder / "plan"
        self.runs = self.folder / "runs"
        self.refused = self.folder / "refused"
        self.progress = self.folder / "progress"
        self.spool = self.folder / "spool"  # files that a source keeps for its workers
        self.fits = self.folder / "fits"
        self._done = self.folder / "done"
        self._identity = self.folder / "build.json"
        self._boot = self.folder / "boot"

    @property
    def is_begun(self) -> bool:
        """Whether a build began here and did not finish."""
        return self._identity.exists()

    @property
    def generation(self) -> int:
        """Which generation of the dataset the build here makes."""
        return self.identity.generation

    @property
    def identity(self) -> Identity:
        """Which build the one here is."""
        try:
            return msgspec.json.decode(self._identity.read_bytes(), type=Identity)
        except msgspec.MsgspecError as error:
            raise FormatError(self._identity, f"not a journal: {error}") from None

    def begin(self, identity: Identity) -> None:
        """Start a journal, or continue one of the same build; refuse another build, and say what changed."""
        is_planned = self.is_begun and (self.plan / "plan.json").exists()  # without a plan nothing was done
        changed = self.differences(identity) if self.is_begun else []
        if is_planned and changed:
            raise unfinished(self.folder.parent, changed)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.is_begun or changed:
            self.empty()  # files of no build that could be continued: whoever made the folder may have put them there
        for folder in (self.plan, self.runs, self.refused, self.fits, self._done):
            folder.mkdir(exist_ok=True)
        if not is_planned or not self.is_of_this_machine:
            self._forget_what_was_not_on_disk()
        if not is_planned:
            self.identify(identity)

    def identify(self, identity: Identity) -> None:
        """Record which build this is."""
        with write_whole(self._identity) as file:
            file.write(msgspec.json.encode(identity))

    def _forget_what_was_not_on_disk(self) -> None:
        """A shard that is noted is on disk; everything before it survives anything but a power failure.

        After one, plan, fits and runs are made again, with the same bytes; finished shards stay.
        """
        for path in (*self._done.glob("part*.json"), *self._done.glob("fit-*.json")):
            path.unlink()
        for folder in (self.plan, self.fits, self.runs):
            shutil.rmtree(folder)
            folder.mkdir()
        self._note_boot()

    def note(self, outcome: Outcome, *, durable: bool) -> None:
        """Note that a task is done and its files are written, if nothing else says so."""
        self.write(outcome, sync=durable or bool(outcome.path))

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the machine has not restarted since: then everything that was written is still there."""
        return self._boot.exists() and self._boot.read_text() == boot_of_machine()

    def _note_boot(self) -> None:
        with write_whole(self._boot) as file:
            file.write(boot_of_machine().encode())

    def differences(self, identity: Identity) -> list[str]:
        """How the unfinished build here differs."""
        # In the form that is read back: tuples become lists, and so on.
        now = msgspec.json.decode(msgspec.json.encode(identity), type=Identity)
        return self.identity.differences(now)

    def clean(self) -> None:
        """Remove files that killed tasks left half written."""
        for path in (*self.folder.parent.rglob(".*.partial"), *self.folder.glob("job-*")):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.spool, ignore_errors=True)

    def new_job_path(self) -> Path:
        """A new file for what tasks need to know; never the same name twice, since workers cache what they read."""
        return self.folder / f"job-{uuid.uuid4().hex}.pickle"

    def write(self, outcome: Outcome, *, sync: bool = True) -> None:
        """Note that a task is done and its files are written."""
        with write_whole(self._done / f"{outcome.task}.json", sync=sync) as file:
            file.write(msgspec.json.encode(outcome))

    def outcomes(self, tasks: Iterable[str]) -> dict[str, Outcome]:
        """The outcomes of finished tasks, by task, from one listing."""
        there = {path.name for path in self._done.iterdir()}
        return {
            task: msgspec.json.decode((self._done / f"{task}.json").read_bytes(), type=Outcome)
            for task in tasks
            if f"{task}.json" in there
        }

    @property
    def has_shards(self) -> bool:
        """Whether an earlier run finished any shard, so that continuing is worthwhile."""
        return next(self._done.glob("shard-*.json"), None) is not None

    @property
    def has_outcomes(self) -> bool:
        """Whether any work is done that need not be repeated."""
        return next(self._done.glob("*.json"), None) is not None

    def forget_shards(self) -> None:
        """Forget which shards are done; partitions and fits stay."""
        for path in self._done.glob("shard-*.json"):
            path.unlink()

    def refused_path(self, task: str) -> Path:
        """Where a task writes the samples that it refused."""
        return self.refused / f"{task}.jsonl"

    def fits_path(self, task: str) -> Path:
        """Where a task writes what transforms learned from its samples."""
        return self.fits / f"{task}.pickle"

    def remove(self) -> None:
        """The dataset is complete."""
        # The file that identifies the build goes first: half a journal does not count as one.
        self._identity.unlink(missing_ok=True)
        for _ in map_in_threads(partial(Path.unlink, missing_ok=True), self.runs.glob("*")):
            pass  # large files, which take time to remove
        shutil.rmtree(self.folder, ignore_errors=True)

    def empty(self) -> None:
        """Forget the build, but keep the folder locked."""
        self._identity.unlink(missing_ok=True)
        empty_folder(self.folder)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder; a second build into it is refused while this one lives."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise FileProblem(self.folder.parent, "another build is writing here right now") from None
        try:
            yield
        finally:
            os.close(descriptor)


class StoredJournal(Journal):
    """A journal in a store, for machines that share nothing else. Its objects are written whole, and stay."""

    @property
    def is_of_this_machine(self) -> bool:
        """What is noted there is there, whichever machine restarts."""
        return True

    def _forget_what_was_not_on_disk(self) -> None:
        """A build that was not planned to the end has done nothing else."""
        for folder in (self.plan, self.fits, self.runs, self._done):
            remove_below(folder)

    def clean(self) -> None:
        """Remove what only the last run needed."""
        for path in self.folder.glob("job-*"):
            path.unlink()
        remove_below(self.spool)

    def note(self, outcome: Outcome, *, durable: bool) -> None:
        """A shard is done when its index is there, which says so."""
        if not outcome.path:
            self.write(outcome, sync=durable)

    def outcomes(self, tasks: Iterable[str]) -> dict[str, Outcome]:
        """The outcomes of finished tasks, by task, from two listings."""
        wanted = set(tasks)
        paths = [path for path in self._done.iterdir() if path.stem in wanted]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            noted = [msgspec.json.decode(data, type=Outcome) for data in pool.map(Path.read_bytes, paths)]
        shards = delivered(self.folder.parent, self.identity.digest)
        return {outcome.task: outcome for outcome in (*noted, *shards) if outcome.task in wanted}

    @property
    def has_shards(self) -> bool:
        """Whether an earlier run finished any shard, so that continuing is worthwhile."""
        return self.is_begun and bool(delivered(self.folder.parent, self.identity.digest))

    @property
    def has_outcomes(self) -> bool:
        """Whether any work is done that need not be repeated."""
        return super().has_outcomes or self.has_shards

    def remove(self) -> None:
        """The dataset is complete. The object that identifies the build goes first."""
        self._identity.unlink()
        remove_below(self.folder)

    def empty(self) -> None:
        """Forget the build, but keep the folder claimed."""
        self._identity.unlink()
        remove_below(self.folder, self.folder / CLAIM_NAME)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Nothing: whoever claims the folder in the store has it."""
        yield


QUARANTINE_NAME = "_quarantine.jsonl"


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """One sample that is not in the dataset."""

    source: str
    key: str
    split: str
    stage: str  # read, decode, transform, schema
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.stage}: {self.reason}"


class Quarantine:
    """The refused samples of one task, written as they come; the file appears when the task is done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._temporary = whole_path(path)
        self._file: IO[bytes] | None = None

    def add(self, refused: Quarantined) -> None:
        """Add one sample."""
        if self._file is None:
            self._file = self._temporary.open("wb")
        self._file.write(msgspec.json.encode(refused) + b"\n")
        self.count += 1

    def close(self) -> None:
        """Give the file its name, if anything was refused. A task that is repeated writes it again."""
        if self._file is not None:
            self._file.close()
            give_name(self._temporary, self.path)
        else:
            self.path.unlink(missing_ok=True)


def read_quarantine(path: Path) -> Iterator[Quarantined]:
    """Every refused sample of a dataset, or of a task."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                yield msgspec.json.decode(line, type=Quarantined)


def join_quarantines(parts: Iterable[Path], into: Path, *, keep: bool) -> None:
    """Join the files of all tasks, after what is in the target if that is to be kept."""
    before = into.read_bytes() if keep and into.exists() else b""
    with write_whole(into) as file:
        file.write(before)
        for path in parts:
            if path.exists():
                file.write(path.read_bytes())
