"""FIL: what is wrong with files, before anything in them is understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bushel.checking.collect.facts import Data, FileFacts
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.errors import Fault, fault_words, readable_size
from bushel.parallel import map_in_threads
from bushel.records.files import Skipped, leave_out_empty
from bushel.records.index import StaleIndex
from bushel.records.manifest import ShardEntry
from bushel.storage import as_path, files_beside
from bushel.storage.file_kinds import compression_named

_SHARD = re.compile(r"^(.*?)-?(\d{4,6})-of-(\d{4,6})(.*)$")
SHOWN = 5  # files for which a command is printed
OLD_LIMIT = 64 << 20  # where older protobuf parsers stop


def _is_something_else(file: FileFacts) -> bool:
    first = file.faults[0] if file.faults else None
    return file.records == 0 and first is not None and first.offset == 0 and first.fault is Fault.LENGTH_CRC


def _places(faults: list[Skipped]) -> list[Location]:
    return [
        Location(file=fault.path, record=fault.record if fault.record >= 0 else None, byte=fault.offset)
        for fault in faults
    ]


def _faults(data: Data, *kinds: Fault) -> Iterator[tuple[FileFacts, list[Skipped]]]:
    for file in data.files:
        found = [fault for fault in file.faults if fault.fault in kinds]
        if found and not _is_something_else(file):
            yield file, found


@rule("FIL001", "not-a-tfrecord", needs="records")
def not_a_tfrecord(data: Data) -> Iterator[Finding]:
    """A file that is not a TFRecord, and what it is instead.

    Why: TensorFlow says `corrupted record at 0` for anything that is not a TFRecord, so people look for damage.
    Example: a folder that holds `labels.csv` or a Git LFS pointer beside the shards.
    Fix: leave the file out of the pattern, fetch the real one, or build it: `bushel build SOURCE OUT`.
    Ignore: never; such a file ends training.
    """
    for file in data.files:
        if file.problem is not None and "empty" not in file.problem.what:
            yield Finding(
                f"{file.path.name} {file.problem.what}",
                locations=[Location(file=str(file.path), byte=0)],
                evidence={"expected": "the checksum of a record's length in bytes 8 to 11", "bytes": file.size},
                help=[*file.problem.help, "read only the shards: give their pattern instead of the folder"],
            )
        elif _is_something_else(file):
            yield Finding(
                f"{file.path.name} is not a TFRecord file: it does not begin with a record, and none follows",
                locations=[Location(file=str(file.path), byte=0)],
                evidence={"expected": "the checksum of a record's length in bytes 8 to 11", "bytes": file.size},
                help=["if it was a TFRecord once, its beginning is lost: write it again from its source"],
            )
    if beside := files_beside(file.path for file in data.files):
        names = ", ".join(path.name for path in beside[:SHOWN])
        more = f" and {len(beside) - SHOWN:,} more" if len(beside) > SHOWN else ""
        yield Finding(
            f"{names}{more} {'lies' if len(beside) == 1 else 'lie'} beside the shards and "
            f"{'is' if len(beside) == 1 else 'are'} not read",
            severity="info",
            locations=[Location(file=str(path)) for path in beside[:SHOWN]],
            evidence={"measured": len(beside), "subject": "beside"},
            help=["a reader that takes every file of the folder stops at it: give the pattern of the shards"],
        )


def _grouped(data: Data, *kinds: Fault) -> tuple[list[FileFacts], list[Skipped], list[str]]:
    """The files that have faults of these kinds, the faults, and the commands that keep what is intact."""
    files: list[FileFacts] = []
    faults: list[Skipped] = []
    for file, found in _faults(data, *kinds):
        files.append(file)
        faults += found
    commands = [f"keep its {file.records:,} intact records: bushel repair {file.path} OUT" for file in files[:SHOWN]]
    more = [f"and so for {len(files) - SHOWN:,} more files"] if len(files) > SHOWN else []
    return files, faults, commands + more


def _in_files(files: list[FileFacts]) -> str:
    return files[0].path.name if len(files) == 1 else f"{len(files):,} files"


@rule("FIL002", "undeclared-compression", severity="warning", needs="records")
def undeclared_compression(data: Data) -> Iterator[Finding]:
    """A file whose compression is not what its name or its manifest says.

    Why: TensorFlow does not look: without `compression_type` a gzip file is `corrupted record at 0`, and with it a
    plain file fails the same way.
    Example: `train.tfrecord` that was written with `TFRecordOptions(compression_type="GZIP")`.
    Fix: `bushel build FILE OUT` writes shards that are not compressed; or pass `compression_type="GZIP"` to every
    TFRecordDataset. Another name does not help TensorFlow, which does not look at it. bushel's readers need nothing.
    Ignore: when every reader of the files names the compression.
    """
    found: dict[tuple[str, str], list[FileFacts]] = {}
    for file in data.files:
        if file.problem is not None:
            continue
        says = data.manifest.compression if data.manifest else compression_named(file.path.name)
        if file.compression != says:
            found.setdefault((file.compression or "not compressed", says or "not compressed"), []).append(file)
    for (real, said), files in found.items():
        kind = real.upper() if real != "not compressed" else ""
        says = "manifest" if data.manifest else "name"
        verb, its = ("is", "its") if len(files) == 1 else ("are", "their")
        yield Finding(
            f"{_in_files(files)} {verb} {real}, and {its} {says} says {said}",
            locations=[Location(file=str(file.path), byte=0) for file in files],
            evidence={"measured": real, "expected": said},
            help=[
                f"write shards that are not compressed: bushel build {files[0].path} OUT",
                f'or read with TFRecordDataset(..., compression_type="{kind}")',
            ],
        )


@rule("FIL003", "data-checksum-mismatch", needs="records")
def data_checksum_mismatch(data: Data) -> Iterator[Finding]:
    """Records whose data is not what was written; every one of them, not only the first.

    Why: training stops there, hours in, with an offset and no file name.
    Example: `DataLossError: corrupted record at 3289898`.
    Fix: `bushel repair FILE OUT` keeps every other record, or copy the file again from its source.
    Ignore: never.
    """
    files, found, commands = _grouped(data, Fault.DATA_CRC)
    if files:
        intact = sum(file.records for file in files)
        yield Finding(
            f"{_in_files(files)}: {count_of_things(len(found), 'record')} of {intact + len(found):,} damaged",
            locations=_places(found),
            evidence={"measured": fault_words(Fault.DATA_CRC), "intact": intact, "damaged": len(found)},
            help=commands,
        )


@rule("FIL004", "broken-length-header", needs="records")
def broken_length_header(data: Data) -> Iterator[Finding]:
    """Headers that cannot be trusted, so that the next record is lost too until a whole one is found again.

    Why: TensorFlow cannot go on after one, and with `ignore_errors()` it tries the same place for ever: training hangs.
    Example: 512 zero bytes in the middle of a shard, after a disk was full.
    Fix: `bushel repair FILE OUT` finds the next whole record and keeps the rest.
    Ignore: never.
    """
    files, found, commands = _grouped(data, Fault.LENGTH_CRC, Fault.COMPRESSED_STREAM)
    if files:
        lost, intact = sum(fault.length for fault in found), sum(file.records for file in files)
        yield Finding(
            f"{_in_files(files)}: {count_of_things(len(found), 'place')} without a record, {lost:,} bytes lost",
            locations=_places(found),
            evidence={"measured": fault_words(found[0].fault), "intact": intact, "bytes_lost": lost},
            help=commands,
        )


@rule("FIL005", "truncated-tail", needs="records")
def truncated_tail(data: Data) -> Iterator[Finding]:
    """A file that ends inside a record.

    Why: the writer was killed or never closed, so more than this record may be missing.
    Example: `writer = TFRecordWriter(path)` without `close()`.
    Fix: write the file again with `with TFRecordWriter(path) as writer:`, or `bushel repair FILE OUT`.
    Ignore: never.
    """
    files, found, commands = _grouped(data, Fault.TRUNCATED_HEADER, Fault.TRUNCATED_DATA, Fault.TRUNCATED_STREAM)
    if files:
        where = f" {max(found[-1].record, files[0].records):,}" if len(files) == 1 else ""
        yield Finding(
            f"{_in_files(files)} {'ends' if len(files) == 1 else 'end'} inside {'' if where else 'a '}record{where}",
            locations=_places(found),
            evidence={"measured": fault_words(found[-1].fault), "intact": sum(file.records for file in files)},
            help=["write it again, and close the writer", *commands],
        )


@rule("FIL006", "empty-or-missing-shard", needs="records")
def empty_or_missing_shard(data: Data) -> Iterator[Finding]:
    """Shards without a record, shards of an N-of-M set that are not there, and patterns that match nothing.

    Why: the dataset is smaller than anybody thinks, and nothing says so; an empty pattern is `End of sequence`.
    Example: `train-00003-of-00008.tfrecord` is missing, or has 0 bytes.
    Fix: build the missing shards again, or fetch them.
    Ignore: an empty shard is harmless where records were dealt out at random to more shards than there were records.
    It is a warning, then: nothing promises records in it, and other shards hold some.
    """
    for problem in data.missing_paths:
        yield Finding(
            f"{problem.path}: {problem.what}", locations=[Location(file=problem.path)], help=list(problem.help)
        )
    empty = [file for file in data.files if _is_empty(file)]
    if empty:
        paths = [file.path for file in data.files]
        are_harmless = not {file.path for file in empty} & set(leave_out_empty(paths))
        yield Finding(
            f"{_in_files(empty)} {'holds' if len(empty) == 1 else 'hold'} no record",
            locations=[Location(file=str(file.path)) for file in empty],
            evidence={"measured": 0, "bytes": sum(file.size for file in empty)},
            severity="warning" if are_harmless else None,
            help=["check that the writer was closed and found its source, and write again"],
        )
    yield from _missing_shards([file.path for file in data.files])


def _is_empty(file: FileFacts) -> bool:
    if file.problem is not None:
        return "empty" in file.problem.what
    return file.records == 0 and not file.faults


def _missing_shards(paths: list[Path]) -> Iterator[Finding]:
    sets: dict[tuple[str, str, str], set[int]] = {}
    for path in paths:
        if found := _SHARD.match(path.name):
            key = (str(path.parent / found[1]), found[3], found[4])
            sets.setdefault(key, set()).add(int(found[2]))
    for (stem, of, tail), numbers in sorted(sets.items()):
        missing = sorted(set(range(int(of))) - numbers)
        missing = [number for number in missing if not as_path(f"{stem}-{number:0{len(of)}d}-of-{of}{tail}").exists()]
        if missing:
            names = [f"{stem}-{number:0{len(of)}d}-of-{of}{tail}" for number in missing]
            yield Finding(
                f"{len(missing):,} of {count_of_things(int(of), 'shard')} of {Path(stem).name} missing",
                locations=[Location(file=name) for name in names],
                evidence={"measured": len(numbers), "expected": int(of)},
                help=["fetch or build the missing shards; their names say that the set has them"],
            )


@rule("FIL007", "unstable-read", needs="records")
def unstable_read(data: Data) -> Iterator[Finding]:
    """Records that were damaged on the first read, and intact on the second.

    Why: then it is not the file but the memory, the disk or the network that fails, and it will fail elsewhere too.
    Example: `corrupted record at 12` that goes away when the page cache is dropped.
    Fix: test the memory and the disk; compare the file with its source by checksum.
    Ignore: never.
    """
    files = [file for file in data.files if file.unstable]
    faults = [fault for file in files for fault in file.unstable]
    if files:
        yield Finding(
            f"{_in_files(files)}: {count_of_things(len(faults), 'record')} read differently the second time",
            locations=_places(faults),
            evidence={"measured": "checksum wrong, then right", "records": len(faults)},
            help=["suspect the memory, disk or network of this machine, not the file"],
        )


def _help_of_index(file: FileFacts) -> str:
    problem = file.stale_index
    if problem is not None and problem.help and not isinstance(problem, StaleIndex):
        return problem.help[0]
    return f"index it again: bushel index {file.path}"


@rule("FIL008", "stale-index", severity="warning", needs="records")
def stale_index(data: Data) -> Iterator[Finding]:
    """An index that no longer belongs to its file.

    Why: records would be looked for where they are not; readers refuse it and fall back to a scan, or fail.
    Example: a shard was written again under its old name.
    Fix: `bushel index FILE`.
    Ignore: when nothing reads the file by its index.
    """
    stale = [file for file in data.files if file.stale_index is not None]
    if stale:
        what = (
            stale[0].stale_index.what if len(stale) == 1 and stale[0].stale_index else "have indexes of older versions"
        )
        yield Finding(
            f"{_in_files(stale)} {what}",
            locations=[Location(file=str(file.path)) for file in stale],
            help=[_help_of_index(file) for file in stale[:SHOWN]],
        )


@rule("FIL009", "not-what-the-manifest-says", needs=("records", "digests"))
def not_what_the_manifest_says(data: Data) -> Iterator[Finding]:
    """Files of a dataset whose size, number of records or SHA-256 differs from the manifest.

    Why: the file was changed after the build, so nothing that the manifest promises holds for it.
    Example: one shard of a copied dataset comes from another version of it.
    Fix: copy the dataset again, or build it again.
    Ignore: never; a dataset is not edited in place.
    """
    if data.manifest is None:
        return
    shards = {Path(s.path).name: s for split in data.manifest.splits.values() for s in split.shards}
    pairs = [(file, shards[file.path.name]) for file in data.files if file.path.name in shards and not file.problem]
    for (file, shard), measured in map_in_threads(partial(_measured, data), pairs):
        expected: dict[str, object] = {"bytes": shard.bytes, "records": shard.records}
        if "sha256" in measured:
            expected["sha256"] = shard.sha256
        if measured != expected:
            differing = [name for name in expected if measured[name] != expected[name]]
            yield Finding(
                f"{file.path.name}: {' and '.join(differing)} not as the manifest says",
                locations=[Location(file=str(file.path))],
                evidence={"measured": measured, "expected": expected},
                help=["copy the dataset again, or build it again"],
            )


def _measured(data: Data, pair: tuple[FileFacts, ShardEntry]) -> dict[str, object]:
    """What a shard is really like; its digest only where all else is as it should be."""
    file, shard = pair
    found: dict[str, object] = {"bytes": file.size, "records": file.records}
    if found == {"bytes": shard.bytes, "records": shard.records} and shard.sha256:
        found["sha256"] = data.digests[file.number].result() if file.number in data.digests else file.digest()
    return found


@rule("FIL010", "record-too-large", severity="warning", needs="records")
def record_too_large(data: Data) -> Iterator[Finding]:
    """Records that readers refuse (2 GiB) or that older ones do (64 MiB).

    Why: protobuf cannot parse a message of 2 GiB at all, and parsers before 2017 stopped at 64 MiB; writing succeeds.
    Example: a whole video as one Example of raw frames.
    Fix: split the sample, or store it encoded instead of raw.
    Ignore: above 64 MiB, when only current readers are used and memory suffices.
    """
    for file, found in _faults(data, Fault.TOO_LARGE):
        yield Finding(
            f"{file.path.name}: {count_of_things(len(found), 'record')} larger than 2 GiB",
            severity="error",
            locations=_places(found),
            evidence={"measured": readable_size(max(fault.length for fault in found)), "expected": "below 2 GiB"},
            help=["split the sample, or store it encoded instead of raw"],
        )
    for feature in data.features.values():
        if feature.kind == 1 and feature.seen["max_size"] != (1 << 64) - 1 and feature.seen["max_size"] > OLD_LIMIT:
            yield Finding(
                f"{feature.name} holds values of up to {readable_size(feature.seen['max_size'])}",
                locations=[Location(feature=feature.name)],
                evidence={"measured": feature.seen["max_size"], "expected": OLD_LIMIT},
                help=["split the sample, or store it encoded instead of raw"],
            )
