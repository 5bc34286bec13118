"""Splits: an official test set stays one, few groups have a way out, and a build that is done is not done again."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel
from bushel import Run
from bushel.building.recipe import Recipe
from bushel.data.splits import assign_exactly, assign_groups_exactly, draw, parse_shares
from bushel.errors import BushelError, FileProblem


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for split, count in (("train", 30), ("test", 10)):
        for label in ("cat", "dog"):
            folder = tmp_path / "photos" / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "photos"


def keys(built: Any, split: str) -> set[str]:
    return {row["key"] for row in bushel.open(built.path)[split]}


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"stratify": "label"}], ids=str)
@pytest.mark.parametrize("split", ["80/20", "80/10/10"])
def test_shares_divide_what_is_not_the_test_split(photos: Path, tmp_path: Path, split: str, options: Any) -> None:
    built = bushel.build(photos, tmp_path / "out", split=split, **options)
    counts = {name: one.records for name, one in built.manifest.splits.items()}
    assert list(counts) == ["train", "val", "test"]
    assert (counts["test"], counts["train"] + counts["val"]) == (20, 60)
    assert counts["val"] > 0
    assert all(key.startswith("test/") for key in keys(built, "test"))
    assert built.manifest.counted["samples of the source's own test split, which stays as it is"] == 20


def test_resplit_divides_all_samples(photos: Path, tmp_path: Path) -> None:
    built = bushel.build(photos, tmp_path / "out", split="80/20", resplit=True)
    assert list(built.manifest.splits) == ["train", "val"]
    assert any(key.startswith("test/") for key in keys(built, "train"))
    assert "resplit = true" in (tmp_path / "out" / "recipe.toml").read_text()


def test_a_split_of_test_alone_cannot_divide_the_rest(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="split must name a part beside test, which the source has already"):
        bushel.build(photos, tmp_path / "out", split={"test": 1.0})


def test_a_group_in_the_test_split_and_in_the_rest_is_refused(tmp_path: Path) -> None:
    rows = [{"x": n, "patient": f"p{n % 5}", "split": "test" if n < 3 else "train"} for n in range(20)]
    with pytest.raises(BushelError, match="3 of 5 groups are in more than one split"):
        bushel.build(rows, tmp_path / "out", split="80/20", group="patient")


def logs(path: Path, series: int) -> Path:
    rows = [f"s{number},{time},{time * number}" for number in range(series) for time in range(32)]
    path.write_text("\n".join(["id,t,x", *rows]) + "\n")
    return path


def plan_of(path: Path, **options: Any) -> Any:
    table = {"kind": "series", "path": str(path), "time": "t", "series": "id", "length": 16}
    return bushel.plan(None, Recipe(source=table, **options))


def test_a_split_that_few_groups_leave_empty_names_the_way_out(tmp_path: Path) -> None:
    path = logs(tmp_path / "logs.csv", 10)
    assert plan_of(path, split="80/20").problems == [
        "split 'val' gets no sample: it is drawn from 10 groups of 'series'; --exact gives each split its share of them"
    ]
    exact = plan_of(path, split="80/20", exact=True)
    assert exact.problems == []
    assert {name: split["samples"] for name, split in exact.splits.items()} == {"train": 16, "val": 4}
    one = plan_of(logs(tmp_path / "one.csv", 1), split="80/20")
    assert one.problems == ["split 'val' gets no sample: samples stay with their group, and 'series' has 1 value"]


@pytest.mark.parametrize("groups", [3, 7, 40])
def test_exact_shares_of_groups_cut_no_group(groups: int) -> None:
    sizes = np.random.default_rng(groups).integers(1, 9, groups)
    of_group = np.repeat(np.arange(groups), sizes)
    draws = draw(of_group.astype(np.uint64) * 7919, 0, "split")
    shares = parse_shares("70/20/10")
    assert not isinstance(shares, str)
    found = assign_groups_exactly(draws, list(shares.values()))
    assert {len(set(found[of_group == group])) for group in range(groups)} == {1}
    assert set(found) == {0, 1, 2}
    if groups == 40:
        assert abs((found == 0).mean() - 0.7) < 0.05


def test_the_same_build_again_has_nothing_to_do(photos: Path, tmp_path: Path) -> None:
    first = bushel.build(photos, tmp_path / "out", split="80/20")
    before = (tmp_path / "out" / "dataset.json").stat().st_mtime_ns
    again = bushel.build(photos, tmp_path / "out", split="80/20")
    assert (again.records, again.manifest) == (0, first.manifest)
    assert (tmp_path / "out" / "dataset.json").stat().st_mtime_ns == before


def test_another_recipe_or_a_changed_source_is_not_the_same_build(photos: Path, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "out", split="80/20")
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        bushel.build(photos, tmp_path / "out", split="70/30")
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(photos / "train" / "cat" / "new.png")
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        bushel.build(photos, tmp_path / "out", split="80/20")
    assert bushel.build(photos, tmp_path / "out", split="80/20", run=Run(overwrite=True)).records == 81


def test_a_file_removed_since_is_not_the_same_build(photos: Path, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "out", split="80/20")
    (photos / "train" / "cat" / "0.png").unlink()
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        bushel.build(photos, tmp_path / "out", split="80/20")


def test_a_class_whose_samples_are_all_refused_is_reported(tmp_path: Path) -> None:
    lines = '{"a":1,"label":"x"}\n{"a":"two","label":"y"}\n{"a":3,"label":"x"}\n'
    (tmp_path / "rows.jsonl").write_text(lines)
    source = bushel.sources.table(tmp_path / "rows.jsonl", types={"a": "int64"})
    with pytest.warns(bushel.BushelWarning):
        built = bushel.build(source, tmp_path / "out")
    assert built.problems == ["no record in train of 'y': every sample of it was refused"]


@pytest.mark.parametrize("largest", [3, 40, 2**64 - 1], ids=["many equal draws", "some", "none"])
@pytest.mark.parametrize("has_classes", [False, True])
def test_exact_splits_take_the_smallest_draws_of_each_class_and_of_equal_ones_the_first(
    largest: int, has_classes: bool
) -> None:
    rng, shares = np.random.default_rng(largest % 97), [Fraction(7, 10), Fraction(2, 10), Fraction(1, 10)]
    for count in (1, 2, 9, 100, 101):
        draws = rng.integers(0, largest, count, np.uint64, endpoint=True)
        classes = rng.integers(-1, 4, count) if has_classes else np.zeros(count, int)
        found = assign_exactly(draws, shares, classes if has_classes else None)
        for own in np.unique(classes).tolist():
            rows = np.flatnonzero(classes == own)
            ranks = np.argsort(np.argsort(draws[rows], kind="stable"))
            ends = [int(share * len(rows) + Fraction(1, 2)) for share in (shares[0], shares[0] + shares[1])]
            assert found[rows].tolist() == [sum(end <= rank for end in ends) for rank in ranks.tolist()]
