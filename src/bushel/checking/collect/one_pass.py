"""One pass over the data for all rules, here or on an engine: every record is looked at once, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.content_sample import ContentReader, limit_for
from bushel.checking.collect.duplicates import MAX_TEXTS, DuplicateFinder, Signatures, SortedRun, TextReader
from bushel.checking.collect.facts import (
    MISSING,
    Data,
    FeatureFacts,
    FileFacts,
    ReadingPlan,
    SplitFacts,
    encode_labels,
    split_of,
)
from bushel.checking.collect.image_and_sound_facts import (
    FoundSounds,
    PictureReader,
    Pictures,
    SoundReader,
    Sounds,
    find_sounds,
)
from bushel.checking.collect.value_facts import MAX_ROWS, ListReader, RowReader, TextLooks, find_lists, sampled_features
from bushel.checking.findings import ASPECTS, Aspect
from bushel.data.roles import Account
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Schema, name_context, read_sidecar
from bushel.errors import CorruptRecord, Fault, FileProblem, MissingName
from bushel.parallel import SharedFolder, map_in_threads
from bushel.records.files import CHUNK_BYTES, Chunk, RecordFile, Skipped, open_file
from bushel.records.index import Index, StaleIndex, has_lost_keys, keys_path, load_index
from bushel.records.likeness import ComparedContent, content_of, telling_features
from bushel.records.manifest import Manifest, has_manifest, read_manifest
from bushel.records.record_roles import account_of
from bushel.storage import AnyPath, as_path, disk_sizes, list_files, read_past_cache, shard_paths


class FileEngine(Protocol):
    """Where files are looked at; `bushel.ray.engine` gives one."""

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Refuse, by the node's name, workers that do not see these files."""
        ...

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], *, memory: int = 0) -> Iterator[Any]:
        """Do `work` on every task; yield each result as it is there."""
        ...

    def cpu_seconds(self) -> float | None:
        """What the workers' processors have been busy for; None if that is not known."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


@dataclass(frozen=True)
class FilePart:
    """Consecutive records of a file that one worker looks at: those between two bytes, or all if `end` is None."""

    file: FileFacts
    first: int = 0  # number of the first record
    begin: int = 0
    end: int | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return self.file.size if self.end is None else self.end - self.begin


@dataclass(frozen=True)
class SeenPart:
    """All that was seen of one part of a file, as it travels."""

    part: FilePart
    profile: bytes
    labels: list[NDArray[Any]]
    groups: dict[str, list[NDArray[Any]]]
    pairs: set[tuple[int, int]]
    contents: list[SortedRun]  # hashes, to be joined
    pictures: tuple[Pictures, list[bytes], list[tuple[int, int]]] | None
    sounds: Sounds | None
    texts: Signatures | None
    rows: RowReader
    sample: ContentReader
    looks: TextLooks
    lists: ListReader


_MEMORY = 512 << 20  # that looking at one file takes, about
PART_BYTES = 16 << 20  # of a part, at least: small enough that all workers end together
_LARGE_CHUNK_BYTES = 32 << 20  # where the core does the work: then a part is one chunk, most often
_COMPARED = 4096  # values of a file, about, that tell how large they are
_PARTS = 1024  # that a large dataset is cut into, about; it does not depend on the machine, and so neither do findings


def cut_into_parts(file: FileFacts, index: Index | None, size: int) -> list[FilePart]:
    """The file in parts of about this many bytes, where its index says that records begin; whole without one."""
    count = file.size // size
    if index is None or file.compression is not None or count < 2 or not disk_sizes([file.path]):
        return [FilePart(file)]
    begins = np.array([file.size * i // count for i in range(count)], index.offsets.dtype)
    rows = sorted(set(np.searchsorted(index.offsets, begins).tolist()))
    edges = [*index.offsets[rows[:-1] if rows[-1] == len(index) else rows].tolist(), file.size]
    if edges[0] != 0 or any(end <= begin for begin, end in pairwise(edges)):
        return [FilePart(file)]
    return [FilePart(file, first, *edges) for first, edges in zip(rows, pairwise(edges), strict=False)]


@dataclass
class _Gathered:
    """What was seen of files, by number. Parts come in any order; a file is complete when all of them are there."""

    wanted: dict[int, int]  # parts of each file, in the order of the files
    seen: dict[int, list[SeenPart]] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)  # files that must be looked at as a whole

    def take_complete(self) -> Iterator[list[SeenPart]]:
        """Files in their order, as far as they are complete."""
        while self.wanted and len(self.seen.get(next(iter(self.wanted)), ())) == self.wanted[next(iter(self.wanted))]:
            yield self._take()

    def take_rest(self) -> Iterator[list[SeenPart]]:
        """What is there of the other files, in their order."""
        while self.wanted:
            if parts := self._take():
                yield parts

    def _take(self) -> list[SeenPart]:
        number = next(iter(self.wanted))
        del self.wanted[number]
        return sorted(self.seen.pop(number, []), key=lambda seen: seen.part.first)


@dataclass
class FeatureRoles:
    """What features are for, as the first records show it."""

    account: Account
    label: str | None
    label_is_integer: bool
    label_text: str | None
    groups: list[str]
    identity: list[str]
    has_content: bool  # whether anything is left that could be the same in two records
    is_telling: bool  # whether two records that agree are hardly so by chance
    rows: dict[str, int]  # what rows of numbers are made of
    images: list[str]
    masks: list[str]
    texts: list[str]
    looks: list[str]  # bytes that may be text
    boxes: list[tuple[str, str]]
    tokens: list[str]
    left_out: dict[str, str]  # what copies are compared without, and what it is
    telling: list[str]  # by which records are alike
    schema: Schema | None = None
    sounds: FoundSounds | None = None  # if they are asked for
    most_priority: int = limit_for(0)  # of records whose contents are compared
    row_stride: int = 1  # of one in so many records at least, rows are kept

    @property
    def need_processes(self) -> bool:
        """Whether Python looks at each record: threads would wait for each other."""
        sounds = self.sounds is not None and bool(self.sounds.features)
        return bool(self.images or self.masks or self.texts or self.tokens or self.boxes or sounds)


def roles_of(facts: list[dict[str, Any]], account: Account, content: ComparedContent) -> FeatureRoles:
    """What to look at, by the account of the data and a survey of the first records."""
    by_name = {fact["name"]: fact for fact in facts if not fact["sequence"]}
    one_value = {name for name, fact in by_name.items() if fact["min_count"] == fact["max_count"] == 1}
    label = account.label if account.label in one_value else None
    if label is not None and account.is_guess and by_name[label]["kinds"][FLOAT_KIND]:
        label = None  # a name is not enough to call measurements labels
    groups = [name for name in account.of("group") if name in one_value]
    boxes, tokens = find_lists(facts, account)
    rows = sampled_features(facts, label)
    left_out = {name: kind for name, kind in content.left_out.items() if kind != "label" or name == label}
    identity = [name for name in by_name if name in left_out and name not in groups]
    compared = [fact for name, fact in by_name.items() if name not in identity and name not in groups]
    lists = [fact for fact in facts if fact["sequence"]]
    images = [name for name, fact in by_name.items() if sum(fact["formats"][1:]) > fact["formats"][0]]
    names = [name for name in account.of("name of the label") if name in one_value]
    return FeatureRoles(
        account=account,
        label=label,
        label_is_integer=label is not None and by_name[label]["kinds"][INT_KIND] > 0,
        label_text=names[0] if names and label is not None else None,
        groups=sorted(groups),
        identity=[*identity, *groups],
        has_content=bool(compared or lists),
        is_telling=any(_is_telling(fact) for fact in [*compared, *lists] if fact["name"] not in rows),
        rows=rows,
        images=[name for name in images if account.kind_of(name) != "mask"],
        masks=[name for name in images if account.kind_of(name) == "mask"],
        texts=[
            n
            for n, f in by_name.items()
            if f["kinds"][BYTES_KIND] and f["text"] and f["max_size"] >= 24 and n not in identity
        ],
        looks=[n for n, f in by_name.items() if f["kinds"][BYTES_KIND] and sum(f["formats"][1:]) <= f["formats"][0]],
        boxes=boxes,
        tokens=tokens,
        left_out=left_out,
        telling=telling_features(account, content),
    )


def _is_telling(fact: dict[str, Any]) -> bool:
    """Whether two records that agree in this feature are hardly so by chance."""
    if fact["kinds"][BYTES_KIND]:
        return bool(fact["max_size"] >= 16)
    return bool(fact["max_count"] >= 8 or (fact["sequence"] and fact["max_steps"] >= 8))


PROBE = 2048


@dataclass
class _Split:
    profile: Any = field(default_factory=lambda: _native.Profile([], [], False, False, False))
    labels: list[NDArray[np.int64]] = field(default_factory=list)
    groups: dict[str, list[NDArray[np.int64]]] = field(default_factory=dict)
    pairs: set[tuple[int, int]] = field(default_factory=set)  # of a label and the hash of its name


def list_data(
    paths: Iterable[AnyPath], against: Iterable[AnyPath]
) -> tuple[list[FileFacts], Manifest | None, list[FileProblem]]:
    """The files to look at with their splits, the manifest if there is one, and what cannot be found."""
    files: list[FileFacts] = []
    missing: list[FileProblem] = []
    manifest: Manifest | None = None
    for path, is_against in [*((p, False) for p in paths), *((p, True) for p in against)]:
        try:
            if has_manifest(folder := as_path(path)):
                manifest = read_manifest(path)
                shards = [(s.path, name) for name, split in manifest.splits.items() for s in split.shards]
                places = shard_paths(folder, (shard for shard, _ in shards))
                named = [(place, name) for place, (_, name) in zip(places, shards, strict=True)]
            else:
                named = [(file, split_of(file)) for file in list_files(path) if not _is_setting(file)]
        except FileProblem as problem:
            missing.append(problem)
            continue
        taken = {known.split for known in files}
        for found, split in named:
            name = "against" if is_against and (split == "all" or split in taken) else split
            files.append(FileFacts(number=len(files), path=found, split=name))
    mine = {file.split for file in files if file.split != "against"}
    if "all" in mine and len(mine | {file.split for file in files}) > 1 and mine == {"all"}:
        for file in files:
            file.split = "train" if file.split == "all" else file.split
    return files, manifest, missing


def _is_setting(path: Path) -> bool:
    """Settings and own rules may stand in a dataset's folder."""
    return path.name == "bushel.toml" or path.suffix == ".py"


def read_data(
    files: list[FileFacts],
    *,
    manifest: Manifest | None = None,
    label: str | None = None,
    group: str | None = None,
    plan: ReadingPlan | None = None,
    aspects: Set[Aspect] = frozenset(ASPECTS),
    progress: Callable[[int, int], None] | None = None,
    engine_for: Callable[[FeatureRoles], FileEngine | None] = lambda _: None,
) -> Data:
    """Look at every record of every file once. A KeyboardInterrupt ends it early; what was seen until then is kept."""
    reader = _Reader(files, aspects)
    reader.open_all()
    schema = manifest.schema if manifest else next((read_sidecar(f.path) for f in files if f.problem is None), None)
    found = reader.probe(label, group, manifest=manifest, schema=schema)
    found = replace(
        found, row_stride=reader.row_stride(), most_priority=limit_for(reader.estimated_records()), schema=schema
    )
    engine = engine_for(found)
    stopped = reader.read_all(found, progress) if engine is None else reader.read_on(engine, found, progress)
    data = reader.result(found, schema)
    data.manifest, data.plan = manifest, plan or ReadingPlan()
    if stopped:
        raise Interrupted(data)
    return data


class Interrupted(KeyboardInterrupt):
    """The pass was stopped; `data` is what was seen."""

    def __init__(self, data: Data) -> None:
        self.data = data


class _Reader:
    def __init__(self, files: list[FileFacts], wanted: Set[Aspect]) -> None:
        self.files = files
        self.wanted = wanted
        self.opened: dict[int, RecordFile] = {}
        self.indexes: dict[int, Index | None] = {}
        self.splits: dict[str, _Split] = {}
        self.duplicates: DuplicateFinder | None = None
        self.pictures: PictureReader | None = None
        self.sounds: SoundReader | None = None
        self.texts: TextReader | None = None
        self.lists = ListReader([], [])
        self.rows = RowReader({})
        self.sample = ContentReader([], Account(roles={}))
        self.mean_bytes = 0.0  # of a record among the first
        self.looks = TextLooks([])
        self.threads = 2  # on one core, too: samples depend on it
        self.groups: list[str] = []
        self.label_text: str | None = None
        self.has_label = False
        self.chunk_bytes = CHUNK_BYTES

    def open_all(self) -> None:
        for file, opened in map_in_threads(_open, self.files):
            if opened is not None:
                self.opened[file.number] = opened
        known = [file for file in self.files if file.number in self.opened]
        for file, index in map_in_threads(_load_index, known):
            if file.stale_index is None:
                self.indexes[file.number] = index

    def probe(
        self, label: str | None, group: str | None, *, manifest: Manifest | None, schema: Schema | None
    ) -> FeatureRoles:
        facts: list[dict[str, Any]] = []
        first: Chunk | None = None
        for opened in self.opened.values():
            for chunk in opened.chunks(on_fault=lambda _: None):
                survey = _native.Survey()
                survey.add(chunk.memory, chunk.extents[:PROBE], True)
                facts, first = survey.result()["features"], chunk
                self.mean_bytes = float(chunk.extents[:, 1].mean()) + 16
                break
            if facts:
                break
        names = [fact["name"] for fact in facts]
        for asked in (label, group):
            if facts and asked is not None and asked not in names:
                raise MissingName("feature", asked, names, where=self.files[0].path)
        paths = [self.files[number].path for number in self.opened]
        account = account_of(paths, schema, manifest, label=label, group=group)
        splits: dict[str, list[Path]] = {}
        for number in self.opened:
            splits.setdefault(self.files[number].split, []).append(self.files[number].path)
        found = roles_of(facts, account, content_of(account, names, schema=schema, splits=splits))
        if "sounds" in self.wanted:
            found.sounds = find_sounds(facts, schema, first)
        return found

    def read_all(
        self, found: FeatureRoles, progress: Callable[[int, int], None] | None, part: FilePart | None = None
    ) -> bool:
        """Look at all files, or at one part of the only one. True if it was interrupted."""
        columns = self._prepare(found)
        total, done = sum(file.size for file in self.files), 0

        def make() -> Any:
            return _native.Profile(columns, found.identity, True, "values" in self.wanted, self.duplicates is not None)

        try:
            with ThreadPoolExecutor(self.threads) as pool:
                for file in self.files:
                    split = self.splits.setdefault(file.split, _Split())
                    profiles = [make() for _ in range(self.threads)]
                    try:
                        if file.number in self.opened:
                            tell = partial(_tell_more, progress, done, total)
                            self._read_file(part or FilePart(file), split, profiles, columns, pool, tell)
                    finally:
                        self._end_file(file, split, profiles)
                    done += file.size
                    _tell(progress, done, total)
        except KeyboardInterrupt:
            return True
        return False

    def _prepare(self, found: FeatureRoles) -> list[str]:
        """Make what looks at records; the columns that it asks for."""
        self.groups, self.label_text, self.has_label = found.groups, found.label_text, found.label is not None
        self.duplicates = DuplicateFinder() if "contents" in self.wanted and found.has_content else None
        self.pictures = (
            PictureReader(found.images, found.masks, near="near_images" in self.wanted)
            if "images" in self.wanted and (found.images or found.masks)
            else None
        )
        self.sounds = SoundReader(found.sounds) if found.sounds is not None and found.sounds.features else None
        self.texts = TextReader(found.texts) if "near_texts" in self.wanted and found.texts else None
        self.lists = ListReader(found.boxes, found.tokens)
        self.rows = RowReader(found.rows if "rows" in self.wanted else {}, found.row_stride)
        telling = found.telling if "neighbours" in self.wanted and found.label is not None else []
        self.sample = ContentReader(telling, found.account, found.schema, found.most_priority)
        self.looks = TextLooks(found.looks if "texts" in self.wanted else [])
        self.chunk_bytes = CHUNK_BYTES if found.need_processes else _LARGE_CHUNK_BYTES
        return [name for name in (found.label, found.label_text, *found.groups) if name is not None]

    def read_on(self, engine: FileEngine, found: FeatureRoles, progress: Callable[[int, int], None] | None) -> bool:
        """As `read_all`, but each part of a file is looked at by some worker of the engine."""
        self._prepare(found)
        total = sum(file.size for file in self.files)
        size = max(PART_BYTES, total // _PARTS)
        parts = [
            # What is counted of tokens depends on the longest list before them.
            [FilePart(file)] if found.tokens else cut_into_parts(file, self.indexes.get(file.number), size)
            for file in self.files
        ]
        self.indexes.clear()
        gathered = _Gathered({own[0].file.number: len(own) for own in parts})
        look = partial(_see_part, self.wanted, found)
        done = 0
        try:
            tasks = [part for own in parts for part in own]
            while tasks:
                # The largest first: so no worker is left alone with one at the end. Those of about the same size stay
                # in the order of the files, which are taken in that order.
                tasks.sort(key=lambda part: -part.size.bit_length())
                for part, seen in engine.run(look, tasks, memory=_MEMORY):
                    number = part.file.number
                    if seen is None:
                        gathered.damaged.add(number)
                        continue
                    gathered.seen.setdefault(number, []).append(seen)
                    done += part.size
                    _tell(progress, done, total)
                    for complete in gathered.take_complete():  # while the workers go on
                        self._take_file(complete)
                tasks = [FilePart(self.files[number]) for number in sorted(gathered.damaged)]
                gathered.damaged.clear()
                for task in tasks:
                    gathered.wanted[task.file.number] = 1
                    done -= sum(seen.part.size for seen in gathered.seen.pop(task.file.number, ()))
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
        for rest in gathered.take_rest():
            self._take_file(rest)
        return stopped

    def row_stride(self) -> int:
        """Half of what it will be: a worker that sees few records would keep all of them, for nothing."""
        indexes = [self.indexes.get(number) for number in self.opened]
        records = sum(len(index) for index in indexes if index is not None) if None not in indexes else 0
        return 1 << max(0, (records // MAX_ROWS).bit_length() - 1)

    def estimated_records(self) -> float:
        """How many records there are, by indexes, or else by the size of the first."""
        records = 0.0
        for number in self.opened:
            index = self.indexes.get(number)
            records += len(index) if index is not None else self.files[number].size / max(self.mean_bytes, 17.0)
        return records

    def _take_file(self, parts: list[SeenPart]) -> None:
        """Take all parts of one file, which are in order."""
        facts = joined_facts([seen.part.file for seen in parts])
        file = self.files[facts.number]
        # Workers do not look at indexes.
        file.__dict__.update(facts.__dict__ | {"stale_index": file.stale_index})
        split = self.splits.setdefault(file.split, _Split())
        profile: Any = _native.Profile([], [], False, False, False)
        for seen in parts:
            profile.merge_saved(seen.profile)
            self._take_part(seen, split, file.split)
        self._end_file(file, split, [profile])

    def _take_part(self, seen: SeenPart, split: _Split, name: str) -> None:
        split.labels += seen.labels
        split.pairs |= seen.pairs
        for group, values in seen.groups.items():
            split.groups.setdefault(group, []).extend(values)
        if self.duplicates is not None:
            for run in seen.contents:
                self.duplicates.take(run)
        if self.pictures is not None and seen.pictures is not None:
            self.pictures.merge(seen.pictures, name)
        if self.sounds is not None and seen.sounds is not None:
            self.sounds.sounds.merge(seen.sounds)
        if self.texts is not None and seen.texts is not None:
            self.texts.merge(seen.texts, name)
        self.lists.merge(seen.lists)
        self.rows.merge(seen.rows)
        self.sample.merge(seen.sample)
        self.looks.merge(seen.looks)

    def seen_part(self, part: FilePart) -> SeenPart:
        """What was seen of the one part there is."""
        split = self.splits[part.file.split]
        return SeenPart(
            part=part,
            profile=split.profile.save(),
            labels=split.labels,
            groups=split.groups,
            pairs=split.pairs,
            contents=self.duplicates.taken() if self.duplicates is not None else [],
            pictures=self.pictures.taken() if self.pictures is not None else None,
            sounds=self.sounds.result() if self.sounds is not None else None,
            texts=self.texts.taken() if self.texts is not None else None,
            lists=self.lists,
            rows=self.rows,
            sample=self.sample,
            looks=self.looks,
        )

    def _end_file(self, file: FileFacts, split: _Split, profiles: list[Any]) -> None:
        """Keep of a file how large its values are, and add what was seen of it to its split."""
        first, *others = profiles
        for other in others:
            first.merge(other)
        if "values" in self.wanted and len(self.files) > 1:
            for name, sample in first.samples():
                values = sample[:: len(sample) // _COMPARED | 1]  # by an odd step, as it was taken
                sizes = np.abs(values[np.isfinite(values)])
                if len(sizes):
                    file.quantiles[name] = (*_quantiles(sizes, (0.5, 0.9)), len(sizes))
        split.profile.merge(first)

    def _read_file(
        self,
        part: FilePart,
        split: _Split,
        profiles: list[Any],
        columns: list[str],
        pool: ThreadPoolExecutor,
        tell: Callable[[int], None],
    ) -> None:
        file, opened = part.file, self.opened[part.file.number]
        if part.end is None:
            chunks = opened.chunks(on_fault=file.faults.append)
        else:
            chunks = opened.chunks_between(part.begin, part.end, part.first, max_bytes=self.chunk_bytes)
        if part.first >= MAX_TEXTS:  # there is no room for more of this file
            self.texts = None
        for chunk in chunks:
            faults, arrays, hashes = self._profile(file, chunk, profiles, pool)
            for row, fault, _ in faults:
                if fault != Fault.MALFORMED:
                    self._take_fault(file, opened, chunk, row, fault)
            file.records += len(chunk.extents) - sum(fault != Fault.MALFORMED for _, fault, _ in faults)
            by_name = dict(zip(columns, arrays, strict=True))
            self._take_columns(file, split, columns, by_name)
            labels = by_name[columns[0]] if self.has_label else None
            if self.duplicates is not None:
                self.duplicates.add(hashes, labels, file=file.number, first=chunk.first)
            bad = {row for row, _, _ in faults}
            self.rows.add(chunk, file, labels, bad)
            self.sample.add(chunk, file, labels, bad)
            self.looks.add(chunk, file, bad)
            if self.pictures is not None:
                self.pictures.add(chunk, file, bad)
            if self.sounds is not None:
                self.sounds.add(chunk, file, bad)
            if self.texts is not None:
                self.texts.add(chunk, file, bad)
            if "values" in self.wanted and (self.lists.pairs or self.lists.token_names):
                self.lists.add(chunk, file)
            tell(int(chunk.extents[-1].sum()) if opened.compression is None else 0)

    def _profile(
        self, file: FileFacts, chunk: Chunk, profiles: list[Any], pool: ThreadPoolExecutor
    ) -> tuple[Any, Any, Any]:
        """Profile a chunk in as many ranges as there are threads, and join the results."""
        if self.threads == 1:
            found: tuple[Any, Any, Any] = profiles[0].add(chunk.memory, chunk.extents, file.number, chunk.first)
            return found
        cuts = np.linspace(0, len(chunk.extents), self.threads + 1).astype(int).tolist()
        results = list(
            pool.map(
                lambda i: profiles[i].add(
                    chunk.memory, chunk.extents[cuts[i] : cuts[i + 1]], file.number, chunk.first + cuts[i]
                ),
                range(self.threads),
            )
        )
        faults = [
            (row + cuts[i], fault, column) for i, result in enumerate(results) for row, fault, column in result[0]
        ]
        arrays = [np.concatenate(arrays_of) for arrays_of in zip(*(result[1] for result in results), strict=True)]
        return faults, arrays, np.concatenate([result[2] for result in results])

    def _take_columns(self, file: FileFacts, split: _Split, columns: list[str], by_name: dict[str, Any]) -> None:
        if not columns:
            return
        label = by_name[columns[0]] if self.has_label else np.full(len(by_name[columns[0]]), MISSING)
        codes, values = encode_labels(label)
        if len(values) <= 1 << 16:
            for value, count in zip(values.tolist(), np.bincount(codes).tolist(), strict=True):
                file.labels[value] = file.labels.get(value, 0) + count
        split.labels.append(label)
        for name in self.groups:
            split.groups.setdefault(name, []).append(np.unique(by_name[name]))
        if self.label_text is not None:
            pairs = np.unique(np.stack([label, by_name[self.label_text]], axis=1), axis=0)
            split.pairs |= {(code, text) for code, text in pairs.tolist() if MISSING not in (code, text)}

    def _take_fault(self, file: FileFacts, opened: RecordFile, chunk: Chunk, row: int, fault: int) -> None:
        length = int(chunk.extents[row, 1]) + 16
        skipped = Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault))
        is_unstable = opened.compression is None and fault == Fault.DATA_CRC and is_intact_now(skipped)
        (file.unstable if is_unstable else file.faults).append(skipped)

    def result(self, found: FeatureRoles, schema: Schema | None) -> Data:
        everything: Any = _native.Profile([], [], False, False, False)
        splits: dict[str, SplitFacts] = {}
        pairs: dict[str, dict[str, set[int]]] = {}
        for name, split in self.splits.items():
            everything.merge(split.profile)
            splits[name] = _facts_of(name, split.profile.result(), split)
            if self.label_text is not None and self.label_text in splits[name].features:
                names = splits[name].features[self.label_text].seen["texts_by_hash"]
                for code, text in split.pairs:
                    pairs.setdefault(name, {}).setdefault(names.get(text % (1 << 64), str(text)), set()).add(code)
        data = Data(
            files=self.files,
            splits=splits,
            features=_features_of(everything.result()),
            schema=schema,
            label=found.label,
            label_is_integer=found.label_is_integer,
            label_pairs=pairs,
            boxes=self.lists.boxes,
            tokens=self.lists.tokens,
            rows=self.rows.result(),
            contents=self.sample.result(),
            left_out=found.left_out,
            looks=self.looks.looks,
            identity=set(found.identity),
            account=found.account,
        )
        if self.duplicates is not None:
            split_names = [file.split for file in self.files]
            data.duplicates = self.duplicates.finish(split_names, has_labels=found.label is not None)
            if not found.is_telling and (data.rows is None or data.rows.repeats_by_chance(data.identity)):
                data.duplicates = None
        data.pictures = self.pictures.result(self.files) if self.pictures else None
        data.sounds = self.sounds.result() if self.sounds else None
        data.texts = self.texts.result(self.files) if self.texts else None
        return data


def joined_facts(parts: Sequence[FileFacts]) -> FileFacts:
    """What the parts of one file, in order, say of it."""
    file, *others = parts
    for other in others:
        file.records += other.records
        file.faults += other.faults
        file.unstable += other.unstable
        for label, count in other.labels.items():
            file.labels[label] = file.labels.get(label, 0) + count
    return file


def _see_part(wanted: Set[Aspect], found: FeatureRoles, part: FilePart) -> tuple[FilePart, SeenPart | None]:
    """Look at one part of a file in a worker; None if its headers are damaged: what follows them is then uncertain."""
    seen = replace(part, file=FileFacts(part.file.number, part.file.path, part.file.split))
    reader = _Reader([seen.file], wanted)
    reader.threads = 1
    if (opened := _open(seen.file)) is not None:
        reader.opened[seen.file.number] = opened
    try:
        reader.read_all(found, None, seen)
    except CorruptRecord:
        return part, None
    return part, reader.seen_part(seen)


def is_intact_now(skipped: Skipped) -> bool:
    """Read a record again, past the page cache where the system allows it: bytes that heal were never the file's."""
    data = read_past_cache(as_path(skipped.path), skipped.offset, skipped.length)
    extents = np.array([[0, skipped.length - 16]], np.uint64)
    return len(data) == skipped.length and not _native.verify(data, extents, 1)


def _open(file: FileFacts) -> RecordFile | None:
    """Open a file; None, with the problem in its facts, if that cannot be done."""
    try:
        file.size = file.path.stat().st_size
        opened = open_file(file.path)
    except FileProblem as problem:
        file.problem = problem
        return None
    except OSError as error:
        file.problem = FileProblem(file.path, (error.strerror or str(error)).lower())
        return None
    file.compression = opened.compression
    return opened


def _load_index(file: FileFacts) -> Index | None:
    """The index of a file, if there is one; if it is of no use, its facts say so."""
    try:
        index = load_index(file.path)
        if index is not None and has_lost_keys(file.path, index):
            what = "has an index whose keys are missing: the source of a record cannot be shown, and nothing appended"
            help = [f"Build it again, or copy {keys_path(file.path).name} from where it is whole."]
            file.stale_index = FileProblem(file.path, what, help=help)
        return index
    except StaleIndex as problem:
        file.stale_index = problem
    except ValueError as error:
        file.stale_index = FileProblem(file.path, f"its index cannot be read: {error}")
    return None


def _quantiles(values: NDArray[np.float64], shares: tuple[float, float]) -> tuple[float, float]:
    """As `np.quantile`, between the two values that are nearest; which takes several times as long."""
    places = [share * (len(values) - 1) for share in shares]
    nearest = [(int(at), min(int(at) + 1, len(values) - 1)) for at in places]
    ordered = np.partition(values, sorted({at for pair in nearest for at in pair}))
    one, other = (
        float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))
        for at, (low, high) in zip(places, nearest, strict=True)
    )
    return one, other


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(min(done, total), total)


def _tell_more(progress: Callable[[int, int], None] | None, before: int, total: int, more: int) -> None:
    _tell(progress, before + more, total)


def _features_of(result: dict[str, Any]) -> dict[str, FeatureFacts]:
    known = [seen for seen in result["features"] if sum(seen["kinds"][1:])]
    lists = {seen["name"] for seen in known if seen["sequence"]}
    named = [seen if seen["sequence"] else {**seen, "name": name_context(seen["name"], lists)} for seen in known]
    return {seen["name"]: FeatureFacts(seen, result["records"]) for seen in sorted(named, key=lambda s: s["name"])}


def _facts_of(name: str, result: dict[str, Any], split: _Split) -> SplitFacts:
    labels = np.concatenate(split.labels) if split.labels else np.empty(0, np.int64)
    return SplitFacts(
        name=name,
        records=result["records"],
        features=_features_of(result),
        labels=labels,
        malformed=result["malformed"],
        empty=result["empty"],
        signatures=(result["signatures"], result["signature_names"]),
        groups={name: np.unique(np.concatenate(found)) for name, found in split.groups.items()},
    )
