"""Fitting: transforms learn from the train split alone, the same however the build is done, and once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from making import Numbers, digests, numbers_in

import bushel
from bushel import Run, build
from bushel.errors import BushelError
from bushel.transforms import apply_all

KINDS = ["random", "sequence"]


@dataclass
class Centred:
    """Takes the mean of the train split from a feature. Sums of floats, so that their order matters."""

    feature: str
    fitted: Any = None
    log: str = ""

    def begin_fit(self):
        return CentredFit(self)

    def apply(self, sample, draw):
        return {**sample, self.feature: np.asarray(sample[self.feature], np.float64) - self.fitted["mean"]}


@dataclass
class CentredFit:
    of: Centred
    total: float = 0.0
    rows: int = 0

    def add(self, samples):
        if self.of.log:
            with Path(self.of.log).open("a") as file:
                file.write(f"{self.of.feature}\n")
        for sample in samples:
            self.total += float(np.sum(np.asarray(sample[self.of.feature], np.float64) * 0.1))
            self.rows += np.size(sample[self.of.feature])

    def merge(self, other):
        return CentredFit(self.of, self.total + other.total, self.rows + other.rows)

    def finish(self):
        return replace(self.of, fitted={"mean": self.total / 0.1 / self.rows})


@dataclass
class Words:
    """Keeps a file: all texts of the train split."""

    feature: str
    fitted: Any = None

    def begin_fit(self):
        return WordsFit(self, set())

    def apply(self, sample, draw):
        return {**sample, self.feature: self.fitted.index(sample[self.feature])}

    def save_fitted(self):
        return {"size": len(self.fitted)}, {"words.txt": "\n".join(self.fitted).encode()}

    def load_fitted(self, values, files):
        words = files["words.txt"].decode().split("\n")
        assert len(words) == values["size"]
        return Words(self.feature, words)


@dataclass
class WordsFit:
    of: Words
    words: set

    def add(self, samples):
        self.words |= {sample[self.of.feature] for sample in samples}

    def merge(self, other):
        return WordsFit(self.of, self.words | other.words)

    def finish(self):
        return replace(self.of, fitted=sorted(self.words))


# Workers do not find the modules of tests.
cloudpickle.register_pickle_by_value(__import__(__name__))


def train_mean(folder: Path) -> float:
    return float(np.mean([n * 0.1 for n in numbers_in(folder, "train")]) / 0.1)


def statistics_of(folder: Path) -> dict[str, Any]:
    return bushel.read_manifest(folder).statistics


@pytest.mark.parametrize("reads", KINDS)
def test_one_two_and_five_workers_learn_the_same_to_the_last_bit(tmp_path, reads, monkeypatch):
    monkeypatch.setattr("bushel.building.record_encoding._TASK_ROWS", 200)  # several tasks
    for workers in (1, 2, 5):
        out = tmp_path / str(workers)
        build(Numbers(2000, reads), out, transforms=[Centred("x")], split="80/20", run=Run(workers=workers))
    one, two, five = (statistics_of(tmp_path / str(workers)) for workers in (1, 2, 5))
    assert one == two == five
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "5")
    numbers = np.array(numbers_in(tmp_path / "1", "train"))
    assert one[f"0:{__name__}:Centred"]["fitted"]["mean"] == pytest.approx(numbers.mean() * 0.75)


@pytest.mark.parametrize("reads", KINDS)
def test_nothing_is_learnt_from_other_splits(tmp_path, reads):
    plain = build(Numbers(500, reads), tmp_path / "plain", split="60/20/20", run=Run(workers=1))
    poisoned = np.full((500, 2), 1e9, np.float32)
    train = numbers_in(tmp_path / "plain", "train")
    poisoned[train] = np.arange(500)[train, None] * [1.0, 0.5]
    source = Numbers(500, reads, changes={"x": poisoned})
    build(source, tmp_path / "out", transforms=[Centred("x")], split="60/20/20", run=Run(workers=1))
    assert plain.manifest.splits.keys() == {"train", "val", "test"}
    mean = statistics_of(tmp_path / "out")[f"0:{__name__}:Centred"]["fitted"]["mean"]
    assert mean == pytest.approx(np.mean(train) * 0.75)


def test_transforms_of_different_features_are_fitted_in_one_pass(tmp_path):
    log = tmp_path / "log"
    chain = [Centred("x", log=str(log)), Centred("number", log=str(log)), Centred("x", log=str(log))]
    source = Numbers(100, "random", 1, log=tmp_path / "read")
    build(source, tmp_path / "out", transforms=chain, run=Run(workers=1))
    # One look at a few samples, two passes (the second mean of x waits for the first), the look again, the writing.
    assert len((tmp_path / "read").read_text().splitlines()) == 5
    learnt = statistics_of(tmp_path / "out")
    assert learnt[f"2:{__name__}:Centred"]["fitted"]["mean"] == pytest.approx(0, abs=1e-9)
    x = np.array([sample["x"] for sample in bushel.scan(str(tmp_path / "out" / "train-00000-of-00001.tfrecord"))])
    assert x.mean() == pytest.approx(0, abs=1e-5)


def test_an_open_dataset_gives_back_its_transforms_with_what_they_learnt(tmp_path):
    build(Numbers(60), tmp_path / "out", transforms=[Centred("x"), Words("text")], run=Run(workers=1))
    chain = bushel.open(tmp_path / "out").transforms()
    sample = apply_all(chain, {"x": np.array([0.0, 0.0]), "text": "éé"})
    mean = np.arange(60).mean() * 0.75
    assert sample["x"] == pytest.approx([-mean, -mean])
    assert sample["text"] == 2
    entry = statistics_of(tmp_path / "out")[f"1:{__name__}:Words"]
    assert entry["fitted"] == {"size": 50}
    assert list(entry["artifacts"]) == ["1-Words-words.txt"]


def test_an_artifact_that_was_changed_is_refused(tmp_path):
    build(Numbers(60), tmp_path / "out", transforms=[Words("text")], run=Run(workers=1))
    (tmp_path / "out" / "_artifacts" / "0-Words-words.txt").write_text("é\nother")
    with pytest.raises(BushelError, match=r"0-Words-words\.txt: the file is not the one that was fitted"):
        bushel.open(tmp_path / "out").transforms()


def test_an_addition_does_not_learn_anew(tmp_path):
    chain = [Centred("x"), Words("text")]
    build(Numbers(100), tmp_path / "out", transforms=chain, run=Run(workers=1))
    before = statistics_of(tmp_path / "out")
    build(Numbers(50, first=1000), tmp_path / "out", run=Run(workers=1, append=True))
    assert statistics_of(tmp_path / "out") == before
    added = next(iter(bushel.scan(str(tmp_path / "out" / "train-g001-00000-of-00001.tfrecord"))))
    mean = before[f"0:{__name__}:Centred"]["fitted"]["mean"]
    assert added["x"] == pytest.approx(np.array([added["number"], added["number"] / 2]) - mean, rel=1e-5)


@pytest.mark.parametrize("reads", KINDS)
def test_a_build_that_was_stopped_after_fitting_does_not_fit_again(tmp_path, reads):
    class Breaks(Numbers):
        def read(self, partition, rows):
            is_fitted = (tmp_path / "out" / "_journal" / "fits" / "all.pickle").exists()
            if is_fitted and partition == 3 and (tmp_path / "break").exists():
                raise OSError("stopped")
            yield from super().read(partition, rows)

    source = Breaks(400, reads, log=tmp_path / "reads")
    chain = [Centred("x", log=str(tmp_path / "log"))]
    (tmp_path / "break").touch()
    with pytest.raises(OSError, match="stopped"):
        build(source, tmp_path / "out", transforms=chain, run=Run(workers=1))
    (tmp_path / "break").unlink()
    learnt = (tmp_path / "log").read_text()
    build(source, tmp_path / "out", transforms=chain, run=Run(workers=1))
    (tmp_path / "log").rename(tmp_path / "log2")
    build(Numbers(400, reads), tmp_path / "whole", transforms=[replace(chain[0], log="")], run=Run(workers=1))
    assert (tmp_path / "log2").read_text() == learnt
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_a_dataset_without_a_train_split_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(BushelError) as caught:
        build(Numbers(100), tmp_path / "out", transforms=[Centred("x")], split={"a": 1.0}, run=Run(workers=1))
    assert "Centred learns from the split 'train', and there is none; the splits are a" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_generator_that_can_be_gone_through_once_is_fitted_and_written(tmp_path):
    samples = ({"x": [float(i), 0.0], "label": i % 2} for i in range(50))
    build(samples, tmp_path / "out", transforms=[Centred("x")], run=Run(workers=2))
    assert statistics_of(tmp_path / "out")[f"0:{__name__}:Centred"]["fitted"]["mean"] == pytest.approx(12.25)


def test_a_plan_tells_what_a_chain_that_is_to_be_fitted_would_make(tmp_path):
    from bushel.transforms.by_name import describe_transforms

    recipe = bushel.Recipe(transforms=describe_transforms([Centred("x")]))
    assert bushel.plan(Numbers(300), recipe).samples == 300
