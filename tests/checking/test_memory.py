"""Data in memory: what a notebook has at hand is checked like files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Feature, Order, Ragged, Schema
from bushel.checking.collect.facts import ReadingPlan
from bushel.checking.collect.memory import read_memory
from bushel.data.columns import SparseRow


def rules(report: Any) -> set[str]:
    return {finding.rule for finding in report if finding.severity != "info"}


@pytest.fixture
def sorted_data(tmp_path: Path) -> Path:
    """500 records in the order of their labels."""
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    with bushel.Writer(tmp_path / "data" / "all.tfrecord") as writer:
        for number in range(500):
            writer.write({"x": random.normal(size=8).astype(np.float32), "label": number // 100})
    return tmp_path / "data" / "all.tfrecord"


@pytest.fixture
def of_every_kind(tmp_path: Path) -> Path:
    schema = Schema.of(
        boxes=Feature(dtype="float32", shape=(None, 4)),
        label=Feature(dtype="int64"),
        maybe=Feature(dtype="int64", required=False),
        name=Feature(dtype="str"),
        pair=Feature(dtype="bytes", shape=(2,)),
        raw=Feature(dtype="float64", shape=(3,)),
        terms=Feature(dtype="float32", shape=(50,), encoding="sparse"),
        tokens=Feature(dtype="int64", shape=(None,)),
        words=Feature(dtype="str", shape=(None,)),
    )
    random = np.random.default_rng(0)
    with bushel.Writer(tmp_path / "kinds.tfrecord", schema=schema) as writer:
        for number in range(60):
            sample = {
                "boxes": np.sort(random.random((1 + number % 3, 4), np.float32)),
                "label": number % 5,
                "name": f"record {number}",
                "pair": [b"\x00" * (number + 1), b"b"],
                "raw": random.random(3),
                "terms": SparseRow(np.array([1, 5]), random.random(2, np.float32), 50),
                "tokens": random.integers(0, 99, 1 + number % 7),
                "words": ["w"] * (1 + number % 3),
            }
            writer.write(sample if number % 2 else {**sample, "maybe": number})
    return tmp_path / "kinds.tfrecord"


def test_a_feed_of_every_kind_of_column_gives_what_its_file_gives(of_every_kind: Path) -> None:
    feed = bushel.batches(bushel.open(of_every_kind)["all"], batch_size=16)
    report, of_file = bushel.check(feed), bushel.check(of_every_kind)
    assert report.checked["records"] == of_file.checked["records"] == 60
    assert {(f.rule, f.message) for f in report} == {(f.rule, f.message) for f in of_file}


def test_a_feed_is_judged_by_the_batches_that_it_gives(sorted_data: Path) -> None:
    split = bushel.open(sorted_data)["all"]
    (finding,) = bushel.check(bushel.batches(split, batch_size=50))
    assert finding.rule == "ORD001"
    assert finding.message == "100% of batches would hold 1 class of 5"
    assert rules(bushel.check(bushel.batches(split, batch_size=50, order=Order(shuffle=True, seed=3)))) == set()


def test_a_feed_without_end_is_looked_at_for_one_epoch(sorted_data: Path) -> None:
    order = Order(shuffle=True, seed=3)
    with bushel.batches(bushel.open(sorted_data)["all"], batch_size=50, order=order, epochs=None) as feed:
        report = bushel.check(feed)
    assert (rules(report), report.checked["records"]) == (set(), 500)


def test_transforms_of_a_feed_are_looked_at_too(sorted_data: Path) -> None:
    from bushel import transforms as t

    order = Order(shuffle=True, seed=3)
    split = bushel.open(sorted_data)["all"]
    broken = bushel.batches(split, batch_size=50, order=order, transforms=[t.normalise("x", mean=float("nan"))])
    assert "VAL001" in rules(bushel.check(broken))


def test_a_dataset_that_is_open_and_its_splits_are_checked_as_files(sorted_data: Path) -> None:
    data = bushel.open(sorted_data)
    for given in (data, data["all"]):
        report = bushel.check(given)
        assert rules(report) == {"ORD001"}
        assert report.checked["files"] == [str(sorted_data)]
    chosen = bushel.check(data["all"].select(np.arange(0, 500, 7)))
    assert chosen.checked["records"] == 72


def test_a_data_frame_is_checked_by_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0, np.nan] * 20, "name": ["a", "b", "c"] * 20, "label": [0, 1, 0] * 20})
    assert "VAL001" in rules(bushel.check(frame))


def test_ragged_arrays_and_lists_are_columns_too() -> None:
    ragged = {"ids": Ragged.of([[1, 2], [3], [4, 5, 6]]), "label": [0, 1, 2]}
    assert bushel.check(ragged).checked["records"] == 3
    rows = np.empty(3, object)
    rows[:] = [np.array([1.0]), np.array([2.0, np.inf]), np.array([3.0])]
    assert "VAL001" in rules(bushel.check({"x": rows, "label": [0, 1, 2]}))


def test_rows_of_several_texts_and_columns_of_dates_are_looked_at_whole() -> None:
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]")
    words = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    data = read_memory({"words": words, "day": days, "label": [0, 1, 2]}, label=None, plan=ReadingPlan())
    assert data.features["words"].length == 2
    assert data.features["day"].max - data.features["day"].min == 2


def test_what_holds_nothing_or_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="data must hold at least one array, got none"):
        bushel.check({})
    with pytest.raises(ValueError, match=r"arrays must have the same number of rows, got \[2, 3\]"):
        bushel.check({"x": np.zeros((3, 2)), "label": [0, 1]})


def test_a_tf_dataset_is_judged_by_the_batches_that_it_gives(sorted_data: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    columns = bushel.read(sorted_data)
    pairs = tf.data.Dataset.from_tensor_slices((columns["x"], columns["label"]))
    assert rules(bushel.check(pairs.batch(50))) == {"ORD001"}
    assert rules(bushel.check(pairs.shuffle(500, seed=1).batch(50))) == set()
    assert rules(bushel.check(pairs.shuffle(500, seed=1).repeat().batch(50))) == set()  # endless: nothing repeats
    ragged = tf.data.Dataset.from_tensor_slices({"r": tf.ragged.constant([[1, 2], [3], [4, 5, 6]]), "label": [0, 1, 2]})
    assert rules(bushel.check(ragged.batch(2))) == set()
    both = {"train": pairs.shuffle(500, seed=1).batch(50), "val": pairs.take(50).batch(50)}
    assert "SPL001" in rules(bushel.check(both))


def test_a_dataset_of_the_adapter_is_checked(sorted_data: Path) -> None:
    pytest.importorskip("tensorflow")
    from bushel.tensorflow import dataset

    assert rules(bushel.check(dataset(sorted_data, batch_size=50))) == {"ORD001"}
    shuffled = dataset(sorted_data, batch_size=50, order=Order(shuffle=True, seed=1))
    assert rules(bushel.check(shuffled)) == set()
