"""Adding to a dataset: what is there stays as it is, to the byte."""

import json

import pytest
from making import Numbers, digests, numbers_in

import bushel
from bushel import Run, build
from bushel.data.columns import BytesColumn
from bushel.errors import FileProblem

ADD = Run(workers=1, append=True)


def test_an_addition_takes_the_new_samples_only_and_leaves_every_old_byte(tmp_path):
    out = tmp_path / "out"
    build(Numbers(500), out, split="80/20", run=Run(workers=1))
    before = digests(out)
    built = build(Numbers(800), out, run=ADD)
    assert (built.records, built.manifest.generation) == (300, 1)
    assert sorted(numbers_in(out)) == list(range(800))
    after = digests(out)
    assert {name: after[name] for name in before} == before
    assert sorted(set(after) - set(before)) == [
        "train-g001-00000-of-00001.tfrecord",
        "val-g001-00000-of-00001.tfrecord",
    ]
    assert not (out / "_journal").exists()


def test_additions_go_to_the_splits_that_a_whole_build_would_give_them(tmp_path):
    build(Numbers(800), tmp_path / "whole", split="80/20", run=Run(workers=1))
    build(Numbers(500), tmp_path / "grown", split="80/20", run=Run(workers=1))
    build(Numbers(800), tmp_path / "grown", run=ADD)
    assert set(numbers_in(tmp_path / "grown", "val")) == set(numbers_in(tmp_path / "whole", "val"))


def test_stratified_bounds_are_kept_for_additions(tmp_path):
    out = tmp_path / "out"
    build(Numbers(300), out, split="80/20", stratify="label", run=Run(workers=1))
    before = json.loads((out / "_artifacts" / "split.json").read_text())
    train = set(numbers_in(out, "train"))
    build(Numbers(900), out, run=ADD)
    assert json.loads((out / "_artifacts" / "split.json").read_text()) == before
    assert train <= set(numbers_in(out, "train"))


def test_new_classes_take_new_codes_at_the_end(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100), out, run=Run(workers=1))
    more = Numbers(50, first=100, changes={"label": BytesColumn.of(["ant", "dog"] * 25)})
    label = build(more, out, run=ADD).manifest.label
    assert label.names == ["bird", "cat", "dog", "ant"]
    new = bushel.read(out / "train-g001-00000-of-00001.tfrecord", ["label"])["label"]
    assert sorted(set(new.tolist())) == [2, 3]
    assert bushel.read_manifest(out).splits["train"].label_counts["ant"] == 25


def test_an_addition_of_nothing_new_changes_nothing(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100), out, run=Run(workers=1))
    before = (out / "dataset.json").read_bytes()
    built = build(Numbers(60), out, run=ADD)
    assert (built.records, built.refused) == (0, 0)
    assert (out / "dataset.json").read_bytes() == before
    assert not (out / "_journal").exists()


def test_what_is_refused_in_additions_is_added_to_the_quarantine(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100, refuse=frozenset({3})), out, run=Run(workers=1))
    build(Numbers(200, refuse=frozenset({3, 150})), out, run=ADD)
    lines = (out / "_quarantine.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines][-1] == "n150"
    assert bushel.read_manifest(out).refused >= 2


def test_an_addition_with_another_recipe_is_refused(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100), out, split="80/20", run=Run(workers=1))
    with pytest.raises(FileProblem, match="was built with seed 0, and what is added must be too; got 4"):
        build(Numbers(200), out, seed=4, run=ADD)


def test_an_addition_of_another_schema_is_refused(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100), out, run=Run(workers=1))
    with pytest.raises(FileProblem, match="the samples to add differ from those in the dataset: extra: is extra"):
        build(Numbers(200, changes={"extra": BytesColumn.of(["x"] * 200)}), out, run=ADD)
    assert sorted(numbers_in(out)) == list(range(100))
    assert not (out / "_journal").exists()


def test_there_must_be_a_dataset_to_add_to(tmp_path):
    with pytest.raises(FileProblem, match="there is no finished dataset here to add to"):
        build(Numbers(100), tmp_path / "out", run=ADD)


def test_an_addition_of_which_every_sample_is_refused_counts_them_and_leaves_the_dataset_readable(tmp_path):
    out = tmp_path / "out"
    build(Numbers(100), out, run=Run(workers=1))
    built = build(Numbers(101, refuse=frozenset({100})), out, run=Run(workers=1, append=True))
    assert (built.samples, built.records, built.refused) == (1, 0, 1)
    assert "n100" in (out / "_quarantine.jsonl").read_text()
    assert sorted(numbers_in(out)) == list(range(100))
    build(Numbers(103, refuse=frozenset({100})), out, run=Run(workers=1, append=True))
    assert sorted(numbers_in(out)) == [*range(100), 101, 102]


def test_rows_of_another_file_that_have_known_numbers_are_reported(tmp_path):
    for name, rows in (("a", 3), ("b", 5), ("c", 2)):
        (tmp_path / f"{name}.csv").write_text("x,label\n" + "".join(f"{i},{name}\n" for i in range(rows)))
    out, add = tmp_path / "out", bushel.Run(append=True)
    bushel.build(tmp_path / "a.csv", out)
    with pytest.warns(bushel.BushelWarning, match=r"3 rows of .*b.csv were left out: without key, rows are"):
        assert bushel.build(tmp_path / "b.csv", out, run=add).records == 2
    with pytest.warns(bushel.BushelWarning, match=r"all rows of .*c.csv were left out"):
        assert bushel.build(tmp_path / "c.csv", out, run=add).records == 0


def test_a_file_that_grew_is_added_without_a_word(tmp_path, recwarn):
    table = tmp_path / "a.csv"
    table.write_text("x\n1\n2\n")
    bushel.build(table, tmp_path / "out")
    table.write_text("x\n1\n2\n3\n")
    assert bushel.build(table, tmp_path / "out", run=bushel.Run(append=True)).records == 1
    assert not recwarn.list
