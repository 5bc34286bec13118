"""A fault under an index is believed only after a look without it: an index alone makes no record damaged or lost."""

import gzip
import os
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.records import index as indexes
from tests.reading.conftest import write_numbered

RECORDS = 40


def built(folder: Path, suffix: str = "") -> Path:
    """One shard, plain or gzip, with its index."""
    write_numbered(folder, records=RECORDS, shards=1, suffix=suffix)
    (path,) = folder.glob("*.tfrecord*")
    bushel.write_index(path, label="label")
    return path


def change(path: Path, data: bytes) -> None:
    """Write bytes as a failing disk does: the time stays."""
    times = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def read(path: Path, on_fault: Any, *, shuffle: bool = False) -> tuple[list[int], int]:
    """The numbers in the records, each compared with what it should be by its place; and how many are damaged."""
    order = bushel.Order(shuffle=shuffle)
    feed = bushel.batches(bushel.open(path)["train"], batch_size=8, on_fault=on_fault, order=order)
    found = []
    for batch in feed:
        assert batch["number"].tolist() == batch.rows.tolist()
        assert list(batch["text"]) == [b"record %d" % number for number in batch.rows]
        found += batch["number"].tolist()
    return found, feed.report().damaged


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("on_fault", ["skip", "raise"])
def test_no_flip_in_an_index_drops_or_blames_an_intact_record(tmp_path: Path, suffix: str, on_fault: str) -> None:
    path = built(tmp_path / "data", suffix)
    place = indexes.index_path(path)
    whole = place.read_bytes()
    draw = random.Random(7)
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        change(place, bytes(data[: draw.choice([len(data), draw.randrange(len(data))])]))
        assert read(path, on_fault) == (list(range(RECORDS)), 0)


def resealed(place: Path, **columns: Any) -> None:
    """Change columns of an index, and give it the checksum that belongs to it."""
    memory = np.frombuffer(place.read_bytes(), np.uint8).copy()
    header = indexes._read_header(memory, place)
    for column in header.columns:
        if column.name in columns:
            values = columns[column.name].astype(column.dtype).view(np.uint8)
            memory[column.at : column.at + len(values)] = values
    data = memory[: -indexes._CRC.size].tobytes()
    change(place, data + indexes._CRC.pack(indexes._native.crc32c(data)))


@pytest.mark.parametrize("on_fault", ["skip", "raise"])
@pytest.mark.parametrize("record", [0, 17, RECORDS - 2])
def test_an_index_that_is_wrong_though_sealed_costs_no_record(tmp_path: Path, record: int, on_fault: str) -> None:
    path = built(tmp_path / "data")
    index = indexes.load_index(path)
    assert index is not None
    lengths = index.lengths.astype(np.int64)
    lengths[record : record + 2] += [5, -5]
    ends = np.cumsum(lengths + 16)
    resealed(indexes.index_path(path), length=lengths, offset=ends - lengths - 16)
    assert read(path, on_fault) == (list(range(RECORDS)), 0)
    assert read(path, on_fault) == (list(range(RECORDS)), 0)


def test_records_that_do_not_follow_each_other_are_no_index(tmp_path: Path) -> None:
    path = built(tmp_path / "data")
    index = indexes.load_index(path)
    assert index is not None
    offsets = index.offsets.copy()
    offsets[3] = offsets[4]
    resealed(indexes.index_path(path), offset=offsets)
    with pytest.raises(bushel.FormatError, match="do not follow each other"):
        indexes.load_index(path)
    assert read(path, "raise") == (list(range(RECORDS)), 0)


def test_real_damage_under_a_right_index_is_still_damage_and_costs_only_its_record(tmp_path: Path) -> None:
    path = built(tmp_path / "data")
    index = indexes.load_index(path)
    assert index is not None
    before, whole = indexes.index_path(path).read_bytes(), path.read_bytes()
    data = bytearray(whole)
    data[int(index.offsets[20]) + 30] ^= 4
    change(path, bytes(data))
    assert read(path, "skip") == ([n for n in range(RECORDS) if n != 20], 1)
    with pytest.raises(bushel.CorruptRecord, match="record 20 at byte"):
        read(path, "raise")
    assert indexes.index_path(path).read_bytes() == before
    data = bytearray(whole)
    data[int(index.offsets[20])] ^= 4  # in the length: the index knows it, but a scan would stop here, too
    change(path, bytes(data))
    assert read(path, "skip") == ([n for n in range(RECORDS) if n != 20], 1)
    with pytest.raises(bushel.CorruptRecord, match="record 20 at byte"):
        read(path, "raise")


def stored(path: Path) -> Path:
    """The same records in a gzip stream that is not compressed: a byte of it is a byte of a record."""
    data = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(data, compresslevel=0, mtime=0))
    bushel.write_index(path)
    return path


@pytest.mark.parametrize("taken", [(20,), (20, 21), (0,), (RECORDS - 1,), (4, 20, 21, 22)])
def test_damage_within_gzip_never_gives_one_record_for_another(tmp_path: Path, taken: tuple[int, ...]) -> None:
    path = stored(built(tmp_path / "data", ".gz"))
    index = indexes.load_index(path)
    assert index is not None
    data = bytearray(path.read_bytes())
    start = data.index(gzip.decompress(bytes(data))[:64])
    for record in taken:
        data[start + int(index.offsets[record])] ^= 1  # in the length: how many follow is not known
    change(path, bytes(data))
    found, damaged = read(path, "skip")
    assert found == [n for n in range(RECORDS) if n not in taken]
    assert damaged == len(taken)


@pytest.mark.filterwarnings("ignore:.*compressed shards cannot be read at random")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("longer", "shorter"), [(5, 30), (30, 5), (0, 1), (RECORDS - 2, RECORDS - 1)])
def test_records_that_damage_within_gzip_moved_are_found(
    tmp_path: Path, longer: int, shorter: int, shuffle: bool
) -> None:
    path = stored(built(tmp_path / "data", ".gz"))
    index = indexes.load_index(path)
    assert index is not None
    data = bytearray(gzip.decompress(path.read_bytes()))
    for record in sorted((longer, shorter), reverse=True):
        at = int(index.offsets[record]) + 20
        data[at : at + 1] = data[at : at + 1] * 2 if record == longer else b""
    change(path, gzip.compress(data, compresslevel=0, mtime=0))
    found, damaged = read(path, "skip", shuffle=shuffle)
    assert sorted(found) == [n for n in range(RECORDS) if n not in (longer, shorter)]
    assert damaged == 2
    with pytest.raises(bushel.CorruptRecord):
        read(path, "raise", shuffle=shuffle)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_a_damaged_header_of_a_compressed_stream_costs_no_record(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "data.tfrecord"
    with bushel.Writer(path, compression=compression) as writer:  # type: ignore[arg-type]
        for number in range(RECORDS):
            writer.write({"number": number})
    whole = path.read_bytes()
    for byte, bit in [(byte, bit) for byte in range({"gzip": 10, "zlib": 2}[compression]) for bit in range(8)]:
        data = bytearray(whole)
        data[byte] ^= 1 << bit
        path.write_bytes(data)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [sample["number"] for sample in bushel.scan(path, on_fault="skip")]
        assert found == list(range(RECORDS)), (byte, bit)
        assert all("the compressed stream is damaged" in str(warning.message) for warning in told)


def test_the_types_of_records_are_those_of_intact_ones(tmp_path: Path) -> None:
    path = built(tmp_path / "data")
    names = bushel.open(path)["train"].schema.features.keys()
    data, index = bytearray(path.read_bytes()), indexes.build_index(path)
    for offset in index.offsets[:3].tolist():
        data[offset + 20] ^= 1
    data[int(index.offsets[1])] ^= 1  # and a length, so that few records come before it
    path.write_bytes(data)
    assert bushel.open(path)["train"].schema.features.keys() == names
    other = tmp_path / "data" / "train-0.tfrecord"  # first by name, and damaged throughout
    other.write_bytes(bytes(byte ^ 255 for byte in data))
    assert bushel.open(tmp_path / "data" / "train-*")["train"].schema.features.keys() == names


@pytest.mark.parametrize("records", [RECORDS - 3, RECORDS + 3])
def test_an_index_of_gzip_with_more_or_fewer_records_is_named_and_not_the_data(tmp_path: Path, records: int) -> None:
    path = built(tmp_path / "data", ".gz")
    other = _sized(tmp_path / "other", records)
    index, told = indexes.load_index(path), indexes.load_index(other)
    assert index is not None
    assert told is not None
    indexes.save_index(path, told, tie=indexes.tie_of(path, index))
    with pytest.raises(bushel.FileProblem, match="the index says other records than its file has"):
        read(path, "skip")


def _sized(folder: Path, records: int) -> Path:
    write_numbered(folder, records=records, shards=1, suffix=".gz")
    (path,) = folder.glob("*.gz")
    bushel.write_index(path)
    return path
