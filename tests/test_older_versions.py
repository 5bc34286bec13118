"""What bushel 0.1 wrote stays readable: a dataset, its indexes, the state of a reader, and two runs.

`golden/version01` was written once by `golden/make_version01.py`. `golden/format1` is older, and is read by
`test_frozen_bytes.py`.
"""

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from support import DATA
from test_frozen_bytes import plain, plain_records

import bushel


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy with new times, as a checkout has them."""
    return shutil.copytree(DATA / "version01", tmp_path / "old", copy_function=shutil.copyfile)


def expected(name: str) -> Any:
    return json.loads((DATA / "version01" / "expected.json").read_text())[name]


def test_its_dataset_reads_as_it_was_written(old: Path) -> None:
    dataset = bushel.open(old / "dataset")
    found = {name: plain_records(split[n] for n in range(len(split))) for name, split in dataset.splits.items()}
    assert found == expected("dataset")
    assert bushel.info(old / "dataset").disagreements == []


def test_its_dataset_reads_the_same_by_its_description_for_others(old: Path) -> None:
    (old / "dataset" / "dataset.json").unlink()
    dataset = bushel.open(old / "dataset")
    assert dataset.label is not None
    assert dataset.label.names == ["ant", "bee", "cat"]
    for name, split in dataset.splits.items():
        for found, wanted in zip((split[n] for n in range(len(split))), expected("dataset")[name], strict=True):
            if "colour" in found:  # TensorFlow Datasets has no text that may be missing, only bytes
                found["colour"] = found["colour"].decode()
            assert plain_records([found]) == [wanted]


def test_its_indexes_are_fresh_for_their_files(old: Path) -> None:
    with chdir(old):
        for name, columns in expected("indexes").items():
            index = bushel.load_index(name)
            assert index is not None
            assert {column: plain(values) for column, values in index.values.items()} == columns


def test_its_reader_goes_on_with_the_next_batch(old: Path) -> None:
    train = bushel.open(old / "dataset")["train"]
    with bushel.batches(train, batch_size=4, order=bushel.Order(shuffle=True, seed=7), epochs=2) as feed:
        feed.restore(json.loads((old / "state.json").read_text()))
        assert [batch["n"].tolist() for batch in feed] == expected("batches")


@pytest.mark.parametrize("run", ["trees", "network"])
def test_its_runs_predict_what_they_predicted(old: Path, run: str) -> None:
    with chdir(old):
        found = [[one.label, one.probability] for one in bushel.predict(run, "dataset", split="val")]
    assert [label for label, _ in found] == [label for label, _ in expected(run)]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected(run)], abs=2e-4)


@pytest.mark.slow
def test_its_runs_are_continued(old: Path) -> None:
    from bushel.training import Options

    with chdir(old):
        trained = bushel.train("dataset", Options(epochs=3, columns=("x", "colour")), out="network", resume=True)
    assert len(trained.history) == 3
