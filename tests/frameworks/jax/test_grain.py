"""Records for grain, by number, here and in its workers."""

import pickle
from pathlib import Path

import grain
import pytest

import bushel
import bushel.grain


def test_records_come_by_number(numbered: Path) -> None:
    source = bushel.grain.source(numbered, "train")
    assert len(source) == 103
    assert source[101]["number"] == 101
    assert source[-1]["text"] == "record 102"
    with pytest.raises(IndexError):
        source[103]
    assert pickle.loads(pickle.dumps(source))[5]["number"] == 5
    with pytest.raises(bushel.MissingName, match="no feature 'lable'"):
        bushel.grain.source(numbered, "train", columns=["lable"])


def test_grain_shuffles_and_batches_them(numbered: Path) -> None:
    records = grain.MapDataset.source(bushel.grain.source(numbered, "train", columns=["number", "x"]))
    batches = list(records.shuffle(seed=1).batch(8))
    assert batches[0]["x"].shape == (8, 8)
    assert sorted(number for batch in batches for number in batch["number"].tolist()) == list(range(103))


def test_a_selection_is_numbered_from_zero(numbered: Path) -> None:
    chosen = bushel.open(numbered)["train"].where("label", 3)
    source = bushel.grain.source(chosen, columns=["number"])
    assert [source[at]["number"] for at in range(3)] == [3, 8, 13]
