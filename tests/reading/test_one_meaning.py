"""Damage means the same to every reader: what raises, what is skipped, and what shape the rest has."""

import os
import warnings
from pathlib import Path

import pytest

import bushel
from bushel.errors import CorruptRecord
from bushel.records.index import load_index
from bushel.records.scan import SkippedRecords


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Three records with an index that matches; the header of the second is damaged, and its data is not."""
    path = tmp_path / "a.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(3):
            writer.write({"x": number, "text": f"t{number}"})
    bushel.write_index(path)
    index = load_index(path)
    assert index is not None
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(int(index.offsets[1]) + 9)
        file.write(b"\xff\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return path


READERS = {
    "scan": lambda path, **options: [sample["x"] for sample in bushel.scan(path, **options)],
    "read": lambda path, **options: bushel.read(path, **options)["x"].tolist(),
    "batches": lambda path, **options: [
        x for batch in bushel.batches(path, batch_size=2, **options) for x in batch["x"].tolist()
    ],
}


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_header_raises_although_an_index_knows_the_place(damaged: Path, reader: str) -> None:
    with pytest.raises(CorruptRecord, match="record 1 at byte .*: checksum of the length does not match"):
        READERS[reader](damaged)


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_header_is_skipped_by_every_reader(damaged: Path, reader: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedRecords)  # batches say it in their report
        assert sorted(READERS[reader](damaged, on_fault="skip")) == [0, 2]


@pytest.mark.parametrize("place", [9, 14])
@pytest.mark.parametrize("intact", range(4))
def test_scalars_are_scalars_whichever_record_is_the_only_intact_one(tmp_path: Path, place: int, intact: int) -> None:
    path = tmp_path / "a.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(4):
            writer.write({"x": number, "v": [1.0, 2.0]})
    index, data = bushel.write_index(path) and load_index(path), bytearray(path.read_bytes())
    assert index is not None
    for number in set(range(4)) - {intact}:
        data[int(index.offsets[number]) + place] ^= 1
    (tmp_path / "b.tfrecord").write_bytes(data)
    with pytest.warns(SkippedRecords):
        (sample,) = bushel.scan(tmp_path / "b.tfrecord", on_fault="skip")
    assert sample["x"] == intact
    assert sample["v"].shape == (2,)


def test_keys_that_were_removed_are_found(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("key,x\n1,2\n3,4\n")
    bushel.build(bushel.sources.table(tmp_path / "rows.csv", key="key"), tmp_path / "data", run=bushel.Run(workers=1))
    assert "FIL008" not in [finding.rule for finding in bushel.check(tmp_path / "data")]
    next((tmp_path / "data" / "_index").glob("*.keys")).unlink()
    (found,) = [finding for finding in bushel.check(tmp_path / "data") if finding.rule == "FIL008"]
    assert "has an index whose keys are missing" in found.message
