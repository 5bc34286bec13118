"""Damaged files under each policy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Order, Pack
from bushel.records.index import cached_index_path
from tests.reading.conftest import flip

SHARD = "train-00001-of-00004.tfrecord"  # records 26 to 51


def place(folder: Path, record: int) -> int:
    return int(bushel.open(folder / SHARD)["train"].shards.shards[0].index.offsets[record])


def feed(folder: Path, on_fault: Any, **changes: Any) -> Any:
    return bushel.batches(bushel.open(folder)["train"], **{"batch_size": 10, "on_fault": on_fault, **changes})


def numbers(feed: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in feed]


@pytest.fixture
def damaged(numbered: Path) -> Path:
    """Record 30 has a wrong byte in its data."""
    flip(numbered / SHARD, at=place(numbered, 4) + 20)
    return numbered


@pytest.fixture
def headless(numbered: Path) -> Path:
    """Record 30 has a wrong length, so that the way to record 31 must be found."""
    flip(numbered / SHARD, at=place(numbered, 4))
    cached_index_path(numbered / SHARD).unlink(missing_ok=True)
    return numbered


def test_damage_is_raised_with_its_place(damaged: Path) -> None:
    train = feed(damaged, "raise")
    assert [next(train)["number"].tolist() for _ in range(2)][1][-1] == 19
    with pytest.raises(bushel.CorruptRecord) as caught:
        list(train)
    offset = place(damaged, 4)
    assert str(caught.value).splitlines()[0] == (
        f"{damaged / SHARD}: record 4 at byte {offset}: checksum of the data does not match"
    )


@pytest.mark.parametrize("which", ["damaged", "headless"])
def test_damage_is_left_out_counted_and_keeps_its_place(which: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(which)
    skipping = feed(folder, "skip")
    got = numbers(skipping)
    assert got[3] == [31, 32, 33, 34, 35, 36, 37, 38, 39]
    assert got[4] == list(range(40, 50))
    assert [number for batch in got for number in batch] == [n for n in range(103) if n != 30]
    report = skipping.report()
    assert (report.damaged, report.records) == (1, 102)
    assert (report.faults[0].path, report.faults[0].record) == (str(folder / SHARD), 4)
    assert "1 damaged, the first" in str(report)


@pytest.mark.parametrize("which", ["damaged", "headless"])
def test_damage_is_replaced_by_another_record_of_its_batch(which: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(which)
    replacing = feed(folder, "replace")
    batches = list(replacing)
    assert [len(batch["number"]) for batch in batches] == [10] * 10 + [3]
    assert batches[3]["number"].tolist() == [31, 31, 32, 33, 34, 35, 36, 37, 38, 39]
    assert batches[3].real is not None
    assert batches[3].real.tolist() == [False] + [True] * 9
    assert replacing.report().filled == 1


def test_a_wrong_length_is_worded_as_such(headless: Path) -> None:
    with pytest.raises(bushel.CorruptRecord, match=r"record 4 at byte .*: checksum of the length does not match"):
        list(feed(headless, "raise"))


def test_a_file_cut_short_reads_up_to_its_end(numbered: Path) -> None:
    path = numbered / "train-00003-of-00004.tfrecord"
    path.write_bytes(path.read_bytes()[:-5])
    got = numbers(feed(numbered, "skip"))
    assert [number for batch in got for number in batch] == list(range(102))
    with pytest.raises(bushel.CorruptRecord, match="the file ends inside the record's data"):
        list(feed(numbered, "raise"))


def test_damage_under_shuffle_and_packing(damaged: Path) -> None:
    for settings in ({"order": Order(shuffle=True)}, {"layout": [Pack("tokens", 9)], "order": Order(shuffle=True)}):
        seen: list[int] = []
        for batch in feed(damaged, "skip", **settings):
            column = batch["number"]
            seen += column.tolist() if isinstance(column, np.ndarray) else column.values.tolist()
        assert sorted(seen) == [n for n in range(103) if n != 30]


def test_a_record_read_by_number_is_verified(damaged: Path) -> None:
    train = bushel.open(damaged)["train"]
    assert train[31]["number"] == 31
    with pytest.raises(bushel.CorruptRecord):
        train[30]


def test_a_file_that_shrank_behind_its_index_is_said(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    assert len(train) == 103
    path = numbered / SHARD
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(bushel.FileProblem, match=SHARD):
        train[30]


def test_a_batch_without_any_intact_record_takes_one_of_the_next(damaged: Path) -> None:
    batches = list(feed(damaged, "replace", batch_size=1))
    assert [batch["number"].tolist() for batch in batches[29:32]] == [[29], [31], [31]]
    assert batches[30].real.tolist() == [False]
    assert len(batches) == 103
    assert len(list(feed(damaged, "skip", batch_size=1))) == 102


def test_where_no_record_is_intact_none_stands_in(damaged: Path) -> None:
    only = bushel.open(damaged)["train"].select([30])
    with pytest.raises(bushel.BushelError, match="no record can be read, so none can stand in for those damaged"):
        list(bushel.batches(only, batch_size=1, on_fault="replace"))


@pytest.mark.parametrize("on_fault", ["skip", "replace"])
def test_packed_rows_of_ranks_stay_in_step_past_damage(damaged: Path, on_fault: str) -> None:
    shapes = []
    seen: list[int] = []
    for rank in range(2):
        order = Order(shuffle=True, rank=rank, world=2, uneven="pad")
        batches = list(feed(damaged, on_fault, layout=[Pack("tokens", 9)], order=order))
        shapes.append([batch["tokens"].shape for batch in batches])
        for batch in batches:
            rows = batch["number"].to_list()
            real = [True] * len(rows) if batch.real is None else batch.real.tolist()
            seen += [number for row, is_real in zip(rows, real, strict=True) if is_real for number in row]
    assert shapes[0] == shapes[1]
    assert sorted(seen) == [n for n in range(103) if n != 30]


@pytest.mark.parametrize("shuffle", [False, True])
def test_records_that_do_not_hold_what_the_schema_says_are_skipped_or_replaced(tmp_path: Path, shuffle: bool) -> None:
    """Only the first records decide the schema of files without one: a later shard may differ."""
    paths = [tmp_path / f"part-{number}.tfrecord" for number in range(4)]
    for number, path in enumerate(paths):
        with bushel.Writer(path) as writer:
            for record in range(30):
                size = 17 if number == 2 and record % 3 else 16
                writer.write({"x": np.full(size, record, np.float32), "n": number * 100 + record})
    expected = [n * 100 + r for n in range(4) for r in range(30) if n != 2 or r % 3 == 0]
    order = Order(shuffle=shuffle, seed=1)
    with pytest.raises(bushel.SchemaMismatch, match=r"does not hold float32\[16\]") as caught:
        list(bushel.batches(paths, batch_size=8, order=order))
    assert 'To leave out records that differ: on_fault="skip".' in str(caught.value)
    with bushel.batches(paths, batch_size=8, order=order, on_fault="skip") as skipping:
        assert sorted(np.concatenate([batch["n"] for batch in skipping]).tolist()) == expected
        assert skipping.report().damaged == len(skipping.report().faults) == 20
        assert {fault.why for fault in skipping.report().faults} == {"x: the record does not hold float32[16]"}
    with bushel.batches(paths, batch_size=8, order=order, on_fault="replace") as replacing:
        found = np.concatenate([batch["n"] for batch in replacing])
    assert len(found) == 120
    assert sorted(set(found.tolist())) == expected
