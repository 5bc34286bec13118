"""Shards that are not what their manifest says."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import bushel

SHARD = "train-00000-of-00002.tfrecord"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    rows = [{"number": i, "label": i % 5} for i in range(200)]
    bushel.build(rows, tmp_path / "data", shards=2, order="source", run=bushel.Run(workers=1))
    return tmp_path / "data"


def feed(folder: Path, on_fault: Any = "raise") -> Any:
    return bushel.batches(bushel.open(folder)["train"], batch_size=10, on_fault=on_fault)


def numbers(feed: Any) -> list[int]:
    return [number for batch in feed for number in batch["number"].tolist()]


def cut(path: Path, records: int) -> None:
    offset = int(bushel.load_index(path).offsets[records])
    path.write_bytes(path.read_bytes()[:offset])


def test_a_shorter_shard_is_an_error_that_names_what_was_expected(built: Path) -> None:
    path = built / SHARD
    size = path.stat().st_size
    cut(path, 50)
    with pytest.raises(bushel.FileProblem) as caught:
        feed(built)
    assert str(caught.value).splitlines() == [
        f"{path}: has {path.stat().st_size:,} bytes, and the manifest says {size:,}",
        f"  To keep every intact record of it: bushel repair {path} OUT",
        '  To read what is there, and have the rest reported: bushel.batches(..., on_fault="skip")',
    ]


@pytest.mark.parametrize("on_fault", ["skip", "replace"])
def test_what_is_missing_is_counted_and_located(built: Path, on_fault: str) -> None:
    path = built / SHARD
    cut(path, 50)
    reading = feed(built, on_fault)
    assert len(numbers(reading)) == 150
    report = reading.report()
    assert report.damaged == 50
    assert (report.faults[0].path, report.faults[0].record) == (str(path), 50)
    assert report.faults[0].why.endswith("; 50 records missing")


def test_a_longer_shard_is_an_error(built: Path) -> None:
    path = built / SHARD
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(bushel.FileProblem, match="and the manifest says"):
        feed(built)
    with pytest.raises(bushel.FileProblem, match="and the manifest says"):
        bushel.open(built)["train"][0]


@pytest.mark.parametrize("with_index", [True, False])
def test_another_file_of_the_same_size_is_an_error(built: Path, tmp_path: Path, with_index: bool) -> None:
    rows = [{"number": i, "label": (i + 1) % 5} for i in range(200)]
    bushel.build(rows, tmp_path / "other", shards=2, order="source", run=bushel.Run(workers=1))
    assert (built / SHARD).stat().st_size == (tmp_path / "other" / SHARD).stat().st_size
    shutil.copy2(tmp_path / "other" / SHARD, built / SHARD)
    if with_index:
        shutil.copy2(tmp_path / "other" / "_index" / f"{SHARD}.idx", built / "_index" / f"{SHARD}.idx")
    with pytest.raises(bushel.FileProblem, match=r"another file than the manifest says: SHA-256 \w{12}…, not"):
        feed(built)
    skipping = feed(built, "skip")
    assert (len(numbers(skipping)), skipping.report().damaged) == (200, 1)


def test_indexing_a_built_dataset_again_keeps_its_keys(built: Path) -> None:
    bushel.write_index(sorted(built.glob("*.tfrecord")), values=["number"])
    assert bushel.provenance(built, "train", 7).key == "7"
    assert "number" in bushel.load_index(built / SHARD).values
    more = [{"number": i, "label": i % 5} for i in range(200, 210)]
    assert bushel.build(more, built, run=bushel.Run(workers=1, append=True)) is not None
