"""Records with the same content: the same findings whether hashes stay in memory or go to disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.checking.collect import duplicates


def written(folder: Path) -> Path:
    random = np.random.default_rng(0)
    x = random.normal(size=(900, 16)).astype(np.float32)
    x[600:630] = x[:30]  # of val: in train too
    x[100:110] = x[200:210]  # twice in train
    for split, rows in (("train", slice(0, 600)), ("val", slice(600, 900))):
        with bushel.Writer(folder / f"{split}.tfrecord") as writer:
            writer.write_batch({"x": x[rows], "label": np.arange(900)[rows] % 3})
    return folder


def found(report: Any) -> set[tuple[str, str]]:
    return {(f.rule, f.message) for f in report if f.rule in ("SPL001", "SPL008", "LBL006")}


@pytest.mark.parametrize("many", [1, 1 << 14])
def test_hashes_that_go_to_disk_give_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    data = written(tmp_path)
    in_memory = found(bushel.check(data))
    assert {rule for rule, _ in in_memory} >= {"SPL001", "SPL008"}
    assert any("30 of 300" in message for _, message in in_memory)
    spilled = []
    spill = duplicates.DuplicateFinder._spill
    monkeypatch.setattr(duplicates, "IN_MEMORY", 50)
    monkeypatch.setattr(duplicates, "_MANY", many)  # rows that are written as they are, where they are sorted
    monkeypatch.setattr(duplicates.DuplicateFinder, "_spill", lambda self: (spilled.append(1), spill(self))[1])
    assert found(bushel.check(data)) == in_memory
    assert len(spilled) > 1


def test_files_on_disk_are_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(duplicates, "IN_MEMORY", 50)
    monkeypatch.setattr(duplicates.tempfile, "tempdir", str(tmp_path / "tmp"))
    bushel.check(written(tmp_path / "data"))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_first_copies_are_shown_in_the_order_of_the_files(tmp_path: Path) -> None:
    by_rule = {f.rule: [place.record for place in f.locations] for f in bushel.check(written(tmp_path))}
    assert by_rule["SPL001"] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert by_rule["SPL008"] == [100, 200, 101, 201, 102, 202, 103, 203, 104, 204]
