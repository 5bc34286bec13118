"""A byte flipped at every offset and a file cut at every length: the right fault, record and byte, never a crash."""

import gzip
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support import HEADER, example, frame, sequence_example

import bushel
from bushel.errors import BushelError, CorruptRecord, Fault, FileProblem
from bushel.records.scan import SkippedRecords

SAMPLES = [
    {"i": [7, 8, 9], "f": [0.5], "b": [b"first"]},
    {"i": [1, 2, 3], "f": [1.5], "b": [b""]},
    {"i": [-1, 0, 1], "f": [2.5], "b": [b"the third of them"]},
    {"i": [4, 4, 4], "f": [3.5], "b": [b"last"]},
]
RECORDS = [example(sample) for sample in SAMPLES]
FRAMED = [frame(record) for record in RECORDS]
STREAM = b"".join(FRAMED)
STARTS = [sum(map(len, FRAMED[:i])) for i in range(len(FRAMED) + 1)]


def record_at(offset: int) -> int:
    return max(i for i, start in enumerate(STARTS[:-1]) if start <= offset)


def plain(columns: dict[str, object]) -> list[object]:
    def rows(column: object) -> list[object]:
        return column.to_list() if hasattr(column, "to_list") else column.tolist()  # type: ignore[attr-defined]

    return [rows(columns[name]) for name in ("i", "f", "b")]


def expected(kept: list[int]) -> list[object]:
    return [
        [SAMPLES[k]["i"] for k in kept],
        [SAMPLES[k]["f"][0] for k in kept],
        [SAMPLES[k]["b"][0] for k in kept],
    ]


def place(error: CorruptRecord) -> tuple[str, Fault, int, int]:
    return error.path, error.fault, error.record, error.offset


READERS: dict[str, Callable[[Path, str], object]] = {
    "read": lambda path, on_fault: plain(bushel.read(path, on_fault=on_fault)),
    "scan": lambda path, on_fault: list(bushel.scan(path, on_fault=on_fault)),
    "payloads": lambda path, on_fault: list(bushel.payloads(path, on_fault=on_fault)),
}


@pytest.mark.parametrize("bits", [0x01, 0x02, 0x08, 0x80, 0xFF])
def test_a_flip_at_any_offset_names_its_record_and_costs_no_other(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "a.tfrecord"
    for at in range(len(STREAM)):
        path.write_bytes(STREAM[:at] + bytes([STREAM[at] ^ bits]) + STREAM[at + 1 :])
        record = record_at(at)
        fault = Fault.LENGTH_CRC if at - STARTS[record] < HEADER else Fault.DATA_CRC
        for read in READERS.values():
            with pytest.raises(CorruptRecord) as caught:
                read(path, "raise")
            assert place(caught.value) == (str(path), fault, record, STARTS[record])
        kept = [i for i in range(len(RECORDS)) if i != record]
        with pytest.warns(
            SkippedRecords, match=rf"^1 record skipped; the first: .*: record {record} at byte {STARTS[record]}: "
        ):
            assert READERS["read"](path, "skip") == expected(kept), at
        with pytest.warns(SkippedRecords, match="^1 record skipped"):
            assert READERS["payloads"](path, "skip") == [RECORDS[i] for i in kept], at
        with pytest.warns(SkippedRecords, match="^1 record skipped"):
            samples = READERS["scan"](path, "skip")
        assert [sample["b"] for sample in samples] == expected(kept)[2], at  # type: ignore[attr-defined]


def test_info_and_repair_find_the_same_for_a_flip_at_any_offset(tmp_path: Path) -> None:
    path, out = tmp_path / "a.tfrecord", tmp_path / "out"
    for at in range(len(STREAM)):
        path.write_bytes(STREAM[:at] + bytes([STREAM[at] ^ 0x10]) + STREAM[at + 1 :])
        record = record_at(at)
        (fault,) = bushel.info(path).faults
        assert (fault.record, fault.offset, fault.length) == (record, STARTS[record], len(FRAMED[record]))
        (repaired,) = bushel.repair(path, out)
        (lost,) = repaired.lost
        assert (lost.begin, lost.end, lost.record) == (STARTS[record], STARTS[record + 1], record)
        assert out.read_bytes() == STREAM[: lost.begin] + STREAM[lost.end :]
        out.unlink()


def test_a_cut_at_any_length_says_where_and_keeps_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    for size in range(1, len(STREAM)):
        path.write_bytes(STREAM[:size])
        whole = max(i for i, start in enumerate(STARTS) if start <= size)
        left = size - STARTS[whole]
        if left == 0:
            assert READERS["payloads"](path, "raise") == RECORDS[:whole]
            continue
        fault = Fault.TRUNCATED_HEADER if left < HEADER else Fault.TRUNCATED_DATA
        for read in READERS.values():
            with pytest.raises(CorruptRecord) as caught:
                read(path, "raise")
            assert place(caught.value) == (str(path), fault, whole, STARTS[whole])
        with pytest.warns(SkippedRecords, match="^1 record skipped"):
            assert READERS["payloads"](path, "skip") == RECORDS[:whole]
        if whole:
            with pytest.warns(SkippedRecords, match="^1 record skipped"):
                assert READERS["read"](path, "skip") == expected(list(range(whole)))


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_a_compressed_file_cut_at_any_length_says_where_and_keeps_what_is_whole(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.tfrecord"
    packed = pack(STREAM)
    for size in range(1, len(packed)):
        path.write_bytes(packed[:size])
        inflated = zlib.decompressobj(wbits=47).decompress(packed[:size])
        whole = max(i for i, start in enumerate(STARTS) if start <= len(inflated))
        with pytest.raises(BushelError) as caught:
            READERS["payloads"](path, "raise")
        if not isinstance(caught.value, CorruptRecord):
            # Before the first header is there, what the file is cannot be told.
            assert len(inflated) < HEADER
            assert isinstance(caught.value, FileProblem)
            continue
        if len(inflated) < HEADER:
            assert caught.value.record == 0
            continue
        assert place(caught.value) == (str(path), Fault.TRUNCATED_STREAM, whole, STARTS[whole]), size
        with pytest.warns(SkippedRecords, match="^1 record skipped"):
            assert READERS["payloads"](path, "skip") == RECORDS[:whole]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
@pytest.mark.parametrize("bits", [0x01, 0x10, 0x80])
def test_a_flip_anywhere_in_a_compressed_file_is_found_and_no_record_is_made_up(
    tmp_path: Path, pack: Callable[[bytes], bytes], bits: int
) -> None:
    path = tmp_path / "a.tfrecord"
    packed = pack(STREAM)
    for at in range(len(packed)):
        path.write_bytes(packed[:at] + bytes([packed[at] ^ bits]) + packed[at + 1 :])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = READERS["payloads"](path, "skip")
            except BushelError as error:
                assert str(error).startswith(str(path))  # noqa: PT017
                continue
        if found == RECORDS and not said:
            # Some bits mean nothing: the time in a header, what fills the last byte. zlib knows which.
            assert at < 10 or zlib.decompressobj(wbits=47).decompress(path.read_bytes()) == STREAM, at
            continue
        assert said, at
        assert all(record in RECORDS for record in found), at  # type: ignore[attr-defined]
        with pytest.raises(CorruptRecord) as caught:
            READERS["payloads"](path, "raise")
        assert caught.value.path == str(path)
        assert 0 <= caught.value.record <= len(RECORDS)
        assert 0 <= caught.value.offset <= len(STREAM)


def test_several_faults_are_each_counted_and_the_records_between_them_kept(tmp_path: Path) -> None:
    records = [example({"x": [i]}) for i in range(50)]
    data = bytearray(b"".join(map(frame, records)))
    # Record: offset in it. What is passed over behind a bad header counts as one: 3 with 4, and 20 with 21.
    bad = {3: 2, 4: 14, 20: 9, 21: 3, 49: 20}
    for record, inside in bad.items():
        data[30 * record + inside] ^= 1
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.warns(
        SkippedRecords, match="^3 records skipped; the first: .*record 3 at byte 90: checksum of the length"
    ):
        found = bushel.read(path, on_fault="skip")["x"].tolist()
    assert found == [i for i in range(50) if i not in bad]


def test_damage_in_a_sequence_example_costs_no_other_record(tmp_path: Path) -> None:
    records = [sequence_example({"id": [i]}, {"s": [[b"step %d" % i], [b"x"]], "n": [[i, i]] * i}) for i in range(4)]
    framed = [frame(record) for record in records]
    stream = b"".join(framed)
    path = tmp_path / "a"
    start = len(framed[0])
    for at in range(start, start + len(framed[1])):
        path.write_bytes(stream[:at] + bytes([stream[at] ^ 0x02]) + stream[at + 1 :])
        with pytest.warns(SkippedRecords, match="^1 record skipped"):
            columns = bushel.read(path, on_fault="skip")
        assert columns["id"].tolist() == [0, 2, 3], at
        assert columns["s"].to_list() == [[b"step %d" % i, b"x"] for i in (0, 2, 3)], at
        assert [len(row) for row in columns["n"]] == [0, 2, 3], at
