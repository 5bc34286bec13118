"""Splits: stable, stratified, grouped, by column, or exact."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from making import Numbers, numbers_in

import bushel
from bushel import Recipe, Run, _native, build
from bushel.data import categories, columns, splits
from bushel.data.categories import Categories
from bushel.data.columns import BytesColumn
from bushel.errors import BushelError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"train": 1}),
        ("100", {"train": 1}),
        ("80/20", {"train": Fraction(4, 5), "val": Fraction(1, 5)}),
        ("8/1/1", {"train": Fraction(4, 5), "val": Fraction(1, 10), "test": Fraction(1, 10)}),
        ("train=0.9,dev=0.1", {"train": Fraction(9, 10), "dev": Fraction(1, 10)}),
        ({"a": 0.5, "b": 0.25, "c": 0.25}, {"a": Fraction(1, 2), "b": Fraction(1, 4), "c": Fraction(1, 4)}),
        ("fold", "fold"),
    ],
)
def test_shares_are_understood(given, expected):
    assert splits.parse_shares(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("80/ten", "split must be as 80/10/10 or train=0.8,val=0.2; got '80/ten'"),
        ("10/20/30/40", r"split must name its parts if there are more than three \(a=0.4,b=…\), got '10/20/30/40'"),
        ("train=0.8,val=0.1", "split must sum to 1, got 'train=0.8,val=0.1', which sums to 0.9"),
        ("80/30", "split must sum to 100, got '80/30', which sums to 110"),
        ("train=80,val=10", "split must sum to 100, got 'train=80,val=10', which sums to 90"),
        ("80/0/20", "split must give each part more than 0, got '80/0/20'"),
        ({"tr ain": 1.0}, "the name of a split must be of letters, digits, _ and ., got 'tr ain'"),
    ],
)
def test_shares_that_make_no_sense_say_what_is_wrong(given, message):
    with pytest.raises(ValueError, match=message):
        splits.parse_shares(given)


def test_more_samples_move_no_old_one(tmp_path):
    build(Numbers(1000), tmp_path / "few", split="80/10/10", run=Run(workers=1))
    build(Numbers(3000), tmp_path / "many", split="80/10/10", run=Run(workers=1))
    for name in ("train", "val", "test"):
        assert set(numbers_in(tmp_path / "few", name)) <= set(numbers_in(tmp_path / "many", name))


def test_shares_are_about_what_was_asked_for():
    draws = splits.draw(np.arange(100_000, dtype=np.uint64), 0, "split")
    counts = np.bincount(splits.assign(draws, splits.bounds_of([Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)])))
    assert np.abs(counts - [80_000, 10_000, 10_000]).max() < 400


def test_stratified_counts_are_right_within_one_in_every_class():
    rng = np.random.default_rng(0)
    classes = rng.choice(5, 3000, p=[0.6, 0.3, 0.07, 0.02, 0.01])
    draws = splits.draw(np.arange(3000, dtype=np.uint64), 0, "split")
    shares = [Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)]
    bounds = splits.stratified_bounds(draws, shares, classes)
    found = splits.assign_stratified(draws, bounds, classes, splits.bounds_of(shares))
    for code in range(5):
        counts = np.bincount(found[classes == code], minlength=3)
        wanted = np.array([0.8, 0.1, 0.1]) * (classes == code).sum()
        assert np.abs(counts - wanted).max() <= 2.5  # each bound within one, so each part within two and rounding


def test_stratified_bounds_stay_where_they_were_if_counts_are_right():
    draws = np.arange(1000, dtype=np.uint64) * np.uint64(2**64 // 1000)
    shares = [Fraction(1, 2), Fraction(1, 2)]
    bounds = splits.stratified_bounds(draws, shares, np.zeros(1000, np.int32))
    assert bounds[0].tolist() == splits.bounds_of(shares).tolist()


def test_exact_counts_are_exact(tmp_path):
    manifest = build(Numbers(1001), tmp_path / "out", split="80/10/10", exact=True, run=Run(workers=1)).manifest
    assert [split.records for split in manifest.splits.values()] == [801, 100, 100]


def test_a_group_is_never_in_two_splits(tmp_path):
    groups = np.arange(1000) % 37
    build(Numbers(1000, changes={"patient": groups}), tmp_path / "out", split="70/30", group="patient")
    train, val = ({n % 37 for n in numbers_in(tmp_path / "out", name)} for name in ("train", "val"))
    assert train
    assert val
    assert not train & val


def test_a_column_that_says_the_split_is_followed(tmp_path):
    said = BytesColumn.of(["test" if n % 5 == 0 else "train" for n in range(200)])
    build(Numbers(200, changes={"fold": said}), tmp_path / "out", split="fold", run=Run(workers=1))
    assert sorted(numbers_in(tmp_path / "out", "test")) == list(range(0, 200, 5))
    assert list(bushel.read_manifest(tmp_path / "out").splits) == ["train", "test"]


def test_a_source_that_says_the_split_wins_unless_shares_are_given(tmp_path):
    said = BytesColumn.of(["dev" if n < 20 else "train" for n in range(100)])
    source = Numbers(100, changes={"part": said}, split="part")
    build(source, tmp_path / "own", run=Run(workers=1))
    assert sorted(numbers_in(tmp_path / "own", "val")) == list(range(20))
    build(source, tmp_path / "given", split="50/50", run=Run(workers=1))
    assert list(bushel.read_manifest(tmp_path / "given").splits) == ["train", "val"]


def test_a_group_in_two_splits_is_an_error_before_anything_is_read(tmp_path):
    said = BytesColumn.of(["test" if n < 20 else "train" for n in range(100)])
    source = Numbers(100, changes={"fold": said, "patient": np.arange(100) // 30})
    with pytest.raises(BushelError) as caught:
        build(source, tmp_path / "out", split="fold", group="patient")
    assert str(caught.value).splitlines() == [
        "1 of 4 groups are in more than one split; the first is '0'",
        '  To split by \'patient\' instead: split="80/10/10", resplit=True, group="patient"',
    ]


def test_duplicate_keys_are_an_error_that_says_where(tmp_path):
    class Twice(Numbers):
        def list(self, partition, columns):
            listing = super().list(partition, columns)
            keys = ["same" if key in (b"n3", b"n90") else key for key in listing.keys]
            return type(listing)(BytesColumn.of(keys), listing.columns)

    with pytest.raises(BushelError) as caught:
        build(Twice(100), tmp_path / "out")
    assert str(caught.value).splitlines()[0] == (
        "1 key stands for more than one sample; the first is 'same': numbers: 3 and numbers: 90"
    )


def test_a_class_that_is_missing_from_train_is_a_problem_of_the_plan():
    said = BytesColumn.of(["test" if n % 7 % 11 % 3 == 0 else "train" for n in range(100)])
    labels = BytesColumn.of(["rare" if n % 7 % 11 % 3 == 0 else "often" for n in range(100)])
    outline = bushel.plan(Numbers(100, changes={"fold": said, "label": labels}), Recipe(split="fold"))
    assert outline.problems == ["no sample in train of 'rare'"]


def test_a_plan_says_splits_classes_shards_and_sizes_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outline = bushel.plan(Numbers(1000), Recipe(split="80/20", stratify="label", shards=4))
    assert outline.samples == 1000
    assert outline.splits["train"]["samples"] + outline.splits["val"]["samples"] == 1000
    assert [facts["shards"] for facts in outline.splits.values()] == [4, 1]
    assert sum(outline.classes["train"].values()) == outline.splits["train"]["samples"]
    built = build(Numbers(1000), tmp_path / "out", run=Run(workers=1))
    assert outline.bytes == pytest.approx(built.bytes, rel=0.2)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_splits_whose_names_begin_alike_are_counted_and_read_apart(tmp_path):
    names = np.array(["foo", "foo_bar", "foo.bar"])[np.arange(300) % 3]
    bushel.build({"number": np.arange(300), "part": names}, tmp_path / "out", split="part", run=bushel.Run(workers=1))
    manifest = bushel.read_manifest(tmp_path / "out")
    counts = {name: sum(shard.records for shard in split.shards) for name, split in manifest.splits.items()}
    assert counts == {"foo": 100, "foo_bar": 100, "foo.bar": 100}
    dataset = bushel.open(tmp_path / "out")
    for place, name in enumerate(["foo", "foo_bar", "foo.bar"]):
        found = sorted(int(sample["number"]) for sample in dataset[name])
        assert found == list(range(place, 300, 3))


@pytest.mark.parametrize("split", [0.8, [0.8, 0.2], 80])
def test_shares_of_another_kind_are_refused_with_the_form_that_works(split: Any) -> None:
    with pytest.raises(ValueError, match=r"split must be as '80/20' or \{'train': 0.8, 'val': 0.2\}, got"):
        splits.parse_shares(split)


def planned(hashes, classes):
    shares = [Fraction(7, 10), Fraction(2, 10), Fraction(1, 10)]
    draws = splits.draw(hashes, 3, "split")
    bounds = splits.stratified_bounds(draws, shares, classes)
    return {
        "all": splits.ordered_rows(hashes, None, seed=3, shuffled=True).tolist(),
        "order": splits.ordered_rows(hashes, np.arange(5, len(hashes)), seed=3, shuffled=True).tolist(),
        "repeated": splits.repeated(hashes).tolist(),
        "split": splits.assign_stratified(draws, bounds, classes, splits.bounds_of(shares)).tolist(),
        "bounds": {number: bound.tolist() for number, bound in bounds.items()},
    }


def test_samples_that_do_not_fit_into_memory_are_planned_as_those_that_do(monkeypatch):
    random = np.random.default_rng(0)
    hashes = random.integers(0, 1 << 63, 3000, np.uint64) * np.uint64(2)
    hashes[[17, 400, 1200]] = hashes[2000]
    classes = random.choice(
        np.array([-1, 0, 1, 2, 9, 10, 11], np.int32), 3000, p=[0.01, 0.6, 0.2, 0.1, 0.03, 0.03, 0.03]
    )
    expected = planned(hashes, classes)
    assert expected["repeated"] == [hashes[2000]]
    assert sorted(expected["order"]) == list(range(5, 3000))
    monkeypatch.setattr(splits, "_SORTED_AT_ONCE", 200)
    monkeypatch.setattr(splits, "_MANY_ROWS", 100)
    monkeypatch.setattr(columns, "_LARGE", 1000)
    monkeypatch.setattr(columns, "_STEP", 300)
    assert planned(hashes, classes) == expected


def test_orders_are_inverted_and_rows_that_are_not_there_are_refused():
    hashes, out = np.array([3, 1, 2], np.uint64), np.empty(3, np.int64)
    _native.invert(np.array([2, 0]), 2, out)
    assert out.tolist() == [1, -1, 0]
    for outside in (3, -1):
        with pytest.raises(IndexError, match="order must hold places of out"):
            _native.invert(np.array([0, outside]), 2, out)
        with pytest.raises(IndexError, match="rows must be below the number of hashes"):
            _native.order_drawn(hashes, np.array([0, 1, outside]), 0, 2, 100, out)
    for rows in (None, np.arange(2)):
        with pytest.raises(ValueError, match="out must have one place per row"):
            _native.order_drawn(hashes, rows, 0, 2, 100, np.empty(4, np.int64))
    assert splits.ordered_rows(hashes, None, seed=1, shuffled=False).tolist() == [0, 1, 2]
    assert splits.repeated(np.empty(0, np.uint64)).tolist() == []


def test_the_classes_of_many_rows_are_those_of_few(monkeypatch):
    texts = BytesColumn.of([b"abc"[row % 3 : row % 3 + 1] * (row % 5) for row in range(1000)])
    whole, parts = Categories("label"), Categories("label")
    whole.add(texts)
    monkeypatch.setattr(categories, "_MANY_ROWS", 300)
    parts.add(texts)
    assert parts.names() == whole.names()
    assert parts.codes().tolist() == whole.codes().tolist()


@pytest.mark.parametrize("values", [[3, 1] * 2000 + [7, 1, 9], list(range(4000, 0, -1)), [5], []])
def test_the_values_of_a_column_are_all_found_however_many_and_late_they_are(values: list[int]):
    column = Categories("label")
    column.add(np.array(values, np.int64))
    assert column.names() == [str(value) for value in sorted(set(values))]
    assert [sorted(set(values))[code] for code in column.codes().tolist()] == values


def test_a_table_that_is_given_twice_is_refused_since_its_rows_have_the_same_numbers(tmp_path):
    (tmp_path / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    twice = bushel.sources.table([tmp_path / "rows.csv"] * 2)
    with pytest.raises(BushelError, match="2 keys stand for more than one sample"):
        bushel.build(twice, tmp_path / "out")
