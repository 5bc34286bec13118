import gzip
from pathlib import Path

import pytest
from support import example, flip, frame, header, write_records

import bushel
from bushel.errors import Fault, FileProblem

RECORDS = [example({"x": [i]}) for i in range(6)]
FRAMED = [frame(record) for record in RECORDS]
SIZE = len(FRAMED[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_records(tmp_path / "a.tfrecord", RECORDS)


def test_an_intact_file_is_kept_byte_for_byte(path: Path, tmp_path: Path) -> None:
    (repaired,) = bushel.repair(path, tmp_path / "out")
    assert (repaired.kept, repaired.lost, repaired.bytes_lost) == (6, [], 0)
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


def test_a_bad_payload_is_passed_over_exactly(path: Path, tmp_path: Path) -> None:
    flip(path, 2 * SIZE + 15)
    (repaired,) = bushel.repair(path, tmp_path / "out")
    (lost,) = repaired.lost
    assert (lost.begin, lost.end, lost.record, lost.fault) == (2 * SIZE, 3 * SIZE, 2, Fault.DATA_CRC)
    assert list(bushel.payloads(tmp_path / "out")) == RECORDS[:2] + RECORDS[3:]


def test_a_bad_header_is_passed_over_to_where_both_checksums_hold(path: Path, tmp_path: Path) -> None:
    flip(path, 2 * SIZE + 1)
    flip(path, 3 * SIZE + 14)  # its payload is bad too: the next record that is whole is the fifth
    (repaired,) = bushel.repair(path, tmp_path / "out")
    (lost,) = repaired.lost
    assert (lost.begin, lost.end, lost.record, lost.fault) == (2 * SIZE, 4 * SIZE, 2, Fault.LENGTH_CRC)
    assert repaired.kept == 4
    assert list(bushel.payloads(tmp_path / "out")) == RECORDS[:2] + RECORDS[4:]


def test_a_header_inside_a_payload_is_taken_for_a_record_only_with_its_data(tmp_path: Path) -> None:
    lure = header(4) + b"lure" + b"\0\0\0\0"
    path = write_records(tmp_path / "a", [b"first", lure, b"last"])
    flip(path, 21)
    (repaired,) = bushel.repair(path, tmp_path / "out")
    assert list(bushel.payloads(tmp_path / "out")) == [b"first", b"last"]
    assert repaired.bytes_lost == 16 + len(lure)


def test_a_cut_file_keeps_what_is_whole(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])
    (repaired,) = bushel.repair(path, tmp_path / "out")
    assert [(lost.begin, lost.end, lost.fault) for lost in repaired.lost] == [
        (5 * SIZE, 6 * SIZE - 3, Fault.TRUNCATED_DATA)
    ]
    assert list(bushel.payloads(tmp_path / "out")) == RECORDS[:5]


def test_a_compressed_file_stays_compressed(tmp_path: Path) -> None:
    data = bytearray(b"".join(FRAMED))
    data[SIZE + 15] ^= 1
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(data)))
    (repaired,) = bushel.repair(path, tmp_path / "out.gz")
    assert [(lost.begin, lost.end) for lost in repaired.lost] == [(SIZE, 2 * SIZE)]
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == bytes(data[:SIZE] + data[2 * SIZE :])


def test_several_files_go_to_a_folder(path: Path, tmp_path: Path) -> None:
    other = write_records(tmp_path / "b.tfrecord", RECORDS[:2])
    flip(other, 15)
    repaired = bushel.repair([path, other], tmp_path / "out")
    assert [(Path(file.out).name, file.kept) for file in repaired] == [("a.tfrecord", 6), ("b.tfrecord", 1)]


def test_nothing_is_overwritten_and_nothing_is_changed(path: Path, tmp_path: Path) -> None:
    flip(path, 15)
    before = path.read_bytes()
    out = tmp_path / "out"
    out.write_bytes(b"precious")
    with pytest.raises(FileProblem, match="exists already"):
        bushel.repair(path, out)
    assert out.read_bytes() == b"precious"
    with pytest.raises(FileProblem, match="exists already"):
        bushel.repair(path, tmp_path)
    assert path.read_bytes() == before


def test_two_files_of_one_name_do_not_become_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    other = write_records(tmp_path / "sub" / "a.tfrecord", RECORDS)
    with pytest.raises(FileProblem, match="two of the files have the same name and would become one"):
        bushel.repair([path, other], tmp_path / "out")


def test_a_file_that_cannot_be_opened_leaves_no_output(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(FileProblem, match="it is a Parquet file"):
        bushel.repair(tmp_path / "a", tmp_path / "out")
    assert not (tmp_path / "out").exists()
