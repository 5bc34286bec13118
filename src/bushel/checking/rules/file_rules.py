"""FIL: what is wrong with files, before anything in them is understood."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from bushel.checking.collect.facts import Data, FileFacts
from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule
from bushel.errors import Fault, fault_words, readable_size
from bushel.records.files import Skipped
from bushel.storage.compression import compression_named

__all__: list[str] = []

_SHARD = re.compile(r"^(.*?)-?(\d{4,6})-of-(\d{4,6})(.*)$")
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
    Reports: https://github.com/tensorflow/ecosystem/issues/56
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
                f"{file.path.name} is not a TFRecord file: it begins with no record, and none follows",
                locations=[Location(file=str(file.path), byte=0)],
                evidence={"expected": "the checksum of a record's length in bytes 8 to 11", "bytes": file.size},
                help=["if it was a TFRecord once, its beginning is lost: write it anew from its source"],
            )


@rule("FIL002", "undeclared-compression", severity="warning", needs="records")
def undeclared_compression(data: Data) -> Iterator[Finding]:
    """A file whose compression is not what its name or its manifest says.

    Why: TensorFlow does not look: without `compression_type` a gzip file is `corrupted record at 0`, and with it a
    plain file fails the same way.
    Example: `train.tfrecord` that was written with `TFRecordOptions(compression_type="GZIP")`.
    Fix: pass `compression_type="GZIP"` to TFRecordDataset, or rename the file to `.gz`. bushel's readers need neither.
    Ignore: when every reader of the files is told the compression.
    Reports: https://github.com/hassan-mahmood/TIES_DataGeneration/issues/11 https://github.com/tensorflow/minigo/issues/433
    """
    for file in data.files:
        if file.problem is not None:
            continue
        says = data.manifest.compression if data.manifest else compression_named(file.path.name)
        if file.compression != says:
            real, said = file.compression or "not compressed", says or "not compressed"
            kind = (file.compression or "").upper()
            yield Finding(
                f"{file.path.name} is {real}, and its {'manifest' if data.manifest else 'name'} says {said}",
                locations=[Location(file=str(file.path), byte=0)],
                evidence={"measured": real, "expected": said},
                help=[f'read it with TFRecordDataset(..., compression_type="{kind}")'],
            )


@rule("FIL003", "data-checksum-mismatch", needs="records")
def data_checksum_mismatch(data: Data) -> Iterator[Finding]:
    """Records whose data is not what was written; every one of them, not only the first.

    Why: training stops there, hours in, with an offset and no file name.
    Example: `DataLossError: corrupted record at 3289898`.
    Fix: `bushel repair FILE OUT` keeps every other record, or copy the file again from its source.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/20835 https://github.com/tensorflow/tensorflow/issues/56855
    """
    for file, found in _faults(data, Fault.DATA_CRC):
        yield Finding(
            f"{file.path.name}: {count_of_things(len(found), 'record')} of {file.records + len(found):,} damaged",
            locations=_places(found),
            evidence={"measured": fault_words(Fault.DATA_CRC), "intact": file.records, "damaged": len(found)},
            help=[f"keep the {file.records:,} intact records: bushel repair {file.path} OUT"],
        )


@rule("FIL004", "broken-length-header", needs="records")
def broken_length_header(data: Data) -> Iterator[Finding]:
    """Headers that cannot be trusted, so that the next record is lost too until a whole one is found again.

    Why: TensorFlow cannot go on behind one, and with `ignore_errors()` it tries the same place for ever: training
    hangs.
    Example: 512 zero bytes in the middle of a shard, after a disk was full.
    Fix: `bushel repair FILE OUT` finds the next whole record and keeps the rest.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/25700 https://github.com/tensorflow/tensorflow/pull/60924
    """
    for file, found in _faults(data, Fault.LENGTH_CRC, Fault.COMPRESSED_STREAM):
        lost = sum(fault.length for fault in found)
        yield Finding(
            f"{file.path.name}: {count_of_things(len(found), 'place')} without a record, {lost:,} bytes lost",
            locations=_places(found),
            evidence={"measured": fault_words(found[0].fault), "intact": file.records, "bytes_lost": lost},
            help=[f"keep the {file.records:,} intact records: bushel repair {file.path} OUT"],
        )


@rule("FIL005", "truncated-tail", needs="records")
def truncated_tail(data: Data) -> Iterator[Finding]:
    """A file that ends inside a record.

    Why: the writer was killed or never closed, so more than this record may be missing.
    Example: `writer = TFRecordWriter(path)` without `close()`.
    Fix: write the file again with `with TFRecordWriter(path) as writer:`, or `bushel repair FILE OUT`.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/4854 https://github.com/tensorflow/datasets/issues/3330
    """
    for file, found in _faults(data, Fault.TRUNCATED_HEADER, Fault.TRUNCATED_DATA, Fault.TRUNCATED_STREAM):
        yield Finding(
            f"{file.path.name} ends inside record {max(found[-1].record, file.records)}",
            locations=_places(found),
            evidence={"measured": fault_words(found[-1].fault), "intact": file.records, "bytes": file.size},
            help=["write it again, and close the writer", f"or keep what is whole: bushel repair {file.path} OUT"],
        )


@rule("FIL006", "empty-or-missing-shard", needs="records")
def empty_or_missing_shard(data: Data) -> Iterator[Finding]:
    """Shards without a record, shards of an N-of-M set that are not there, and patterns that match nothing.

    Why: the dataset is smaller than anybody thinks, and nothing says so; an empty pattern is `End of sequence`.
    Example: `train-00003-of-00008.tfrecord` is missing, or has 0 bytes.
    Fix: build the missing shards again, or fetch them.
    Ignore: an empty shard is harmless where records were dealt out at random to more shards than there were records.
    Reports: https://github.com/nicknochnack/TFODCourse/issues/125 https://github.com/tensorflow/models/issues/1213
    """
    for problem in data.missing_paths:
        yield Finding(
            f"{problem.path}: {problem.what}", locations=[Location(file=problem.path)], help=list(problem.help)
        )
    for file in data.files:
        is_empty = file.problem is not None and "empty" in file.problem.what
        if is_empty or (file.problem is None and file.records == 0 and not file.faults):
            yield Finding(
                f"{file.path.name} holds no record",
                locations=[Location(file=str(file.path))],
                evidence={"measured": 0, "bytes": file.size},
                help=["was its writer closed, and did it find its source?"],
            )
    yield from _missing_shards([file.path for file in data.files])


def _missing_shards(paths: list[Path]) -> Iterator[Finding]:
    sets: dict[tuple[str, str, str], set[int]] = {}
    for path in paths:
        if found := _SHARD.match(path.name):
            key = (str(path.parent / found[1]), found[3], found[4])
            sets.setdefault(key, set()).add(int(found[2]))
    for (stem, of, tail), numbers in sorted(sets.items()):
        missing = sorted(set(range(int(of))) - numbers)
        if missing:
            names = [f"{stem}-{number:0{len(of)}d}-of-{of}{tail}" for number in missing]
            yield Finding(
                f"{len(missing):,} of {int(of):,} shards of {Path(stem).name} are missing",
                locations=[Location(file=name) for name in names],
                evidence={"measured": len(numbers), "expected": int(of)},
                help=["fetch or build the missing shards; their names say that the set has them"],
            )


@rule("FIL007", "unstable-read", needs="records")
def unstable_read(data: Data) -> Iterator[Finding]:
    """Records that were damaged when they were read first, and intact when they were read again.

    Why: then it is not the file but the memory, the disk or the network that fails, and it will fail elsewhere too.
    Example: `corrupted record at 12` that goes away when the page cache is dropped.
    Fix: test the memory and the disk; compare the file with its source by checksum.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/13463
    """
    for file in data.files:
        if file.unstable:
            yield Finding(
                f"{file.path.name}: {count_of_things(len(file.unstable), 'record')} read differently the second time",
                locations=_places(file.unstable),
                evidence={"measured": "checksum wrong, then right", "records": len(file.unstable)},
                help=["suspect memory, disk or network of this machine, not the file"],
            )


@rule("FIL008", "stale-index", severity="warning", needs="records")
def stale_index(data: Data) -> Iterator[Finding]:
    """An index that does not belong to its file any more.

    Why: records would be looked for where they are not; readers refuse it and fall back to a scan, or fail.
    Example: a shard was written again under its old name.
    Fix: `bushel index FILE`.
    Ignore: when nothing reads the file by its index.
    Reports: none; found by bushel's own tests.
    """
    for file in data.files:
        if file.stale_index is not None:
            yield Finding(
                f"{file.path.name} {file.stale_index.what}",
                locations=[Location(file=str(file.path))],
                help=[f"bushel index {file.path}"],
            )


@rule("FIL009", "not-what-the-manifest-says", needs="records")
def not_what_the_manifest_says(data: Data) -> Iterator[Finding]:
    """Files of a dataset whose size, number of records or SHA-256 differs from the manifest.

    Why: the file was changed after the build, so nothing that the manifest promises holds for it.
    Example: one shard of a copied dataset comes from another version of it.
    Fix: copy the dataset again, or build it again.
    Ignore: never; a dataset is not edited in place.
    Reports: none; found by bushel's own tests.
    """
    if data.manifest is None:
        return
    shards = {Path(s.path).name: s for split in data.manifest.splits.values() for s in split.shards}
    for file in data.files:
        shard = shards.get(file.path.name)
        if shard is None or file.problem is not None:
            continue
        measured: dict[str, object] = {"bytes": file.size, "records": file.records}
        expected: dict[str, object] = {"bytes": shard.bytes, "records": shard.records}
        if measured == expected and shard.sha256:
            with file.path.open("rb") as opened:
                measured["sha256"] = hashlib.file_digest(opened, "sha256").hexdigest()
            expected["sha256"] = shard.sha256
        if measured != expected:
            differing = [name for name in expected if measured[name] != expected[name]]
            yield Finding(
                f"{file.path.name}: {' and '.join(differing)} not as the manifest says",
                locations=[Location(file=str(file.path))],
                evidence={"measured": measured, "expected": expected},
                help=["copy the dataset again, or build it again"],
            )


@rule("FIL010", "record-too-large", severity="warning", needs="records")
def record_too_large(data: Data) -> Iterator[Finding]:
    """Records that readers refuse (2 GiB) or that older ones do (64 MiB).

    Why: protobuf cannot parse a message of 2 GiB at all, and parsers before 2017 stopped at 64 MiB; writing succeeds.
    Example: a whole video as one Example of raw frames.
    Fix: split the sample, or store it encoded instead of raw.
    Ignore: above 64 MiB, when only current readers are used and memory suffices.
    Reports: https://github.com/tensorflow/tensorflow/issues/7311 https://github.com/protocolbuffers/protobuf/issues/11729
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
