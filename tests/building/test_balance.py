"""Balance: of the train split alone, after the split, marked, spread, and the same on any number of workers."""

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from making import Numbers, digests, numbers_in
from PIL import Image

import bushel
from bushel import Balance, Recipe, Run, build
from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.errors import BushelError
from bushel.records.index import load_index

KINDS = ["random", "sequence"]
RARE = BytesColumn.of(["rare" if n % 20 == 0 else "often" for n in range(1000)])


def source(reads: str, **changes: object) -> Numbers:
    return Numbers(1000, reads, changes={"label": RARE, **changes})


def labels_in(folder: Path, split: str) -> Counter[int]:
    return Counter(np.asarray(bushel.open(folder)[split].values("label")).tolist())


@pytest.mark.parametrize("reads", KINDS)
def test_samples_of_a_rare_class_come_again_in_train_alone(tmp_path, reads):
    plain = build(source(reads), tmp_path / "plain", split="80/20", run=Run(workers=1)).manifest
    built = build(source(reads), tmp_path / "out", split="80/20", balance="oversample", run=Run(workers=1))
    often = plain.splits["train"].label_counts["often"]
    assert built.manifest.splits["train"].label_counts == {"often": often, "rare": often}
    assert built.manifest.splits["val"].label_counts == plain.splits["val"].label_counts
    assert built.manifest.balance.before == plain.splits["train"].label_counts
    assert built.manifest.balance.after == built.manifest.splits["train"].label_counts
    assert set(numbers_in(tmp_path / "out", "train")) == set(numbers_in(tmp_path / "plain", "train"))
    assert sorted(numbers_in(tmp_path / "out", "val")) == sorted(numbers_in(tmp_path / "plain", "val"))
    times = Counter(Counter(n for n in numbers_in(tmp_path / "out", "train") if n % 20 == 0).values())
    assert max(times) - min(times) <= 1  # none comes again much more often than another


@pytest.mark.parametrize("reads", KINDS)
@pytest.mark.parametrize(
    "balance", [Balance(method="oversample", ratio=0.5), Balance(method="undersample", ratio=0.25)]
)
def test_a_ratio_is_kept(tmp_path, reads, balance):
    built = build(source(reads), tmp_path / "out", balance=balance, run=Run(workers=1))
    counts = built.manifest.splits["train"].label_counts
    assert counts == ({"often": 950, "rare": 475} if balance.method == "oversample" else {"often": 200, "rare": 50})
    assert built.manifest.label.class_weights["rare"] == pytest.approx(sum(counts.values()) / 2 / counts["rare"])


@pytest.mark.parametrize("reads", KINDS)
def test_any_number_of_workers_repeats_and_changes_the_same(tmp_path, reads):
    balance = Balance(method="oversample", augment=[{"transform": "jitter", "feature": "x", "std": 0.5}])
    for workers in (1, 3):
        build(source(reads), tmp_path / str(workers), balance=balance, shards=4, run=Run(workers=workers))
    assert digests(tmp_path / "1") == digests(tmp_path / "3")
    train = bushel.open(tmp_path / "1")["train"]
    columns = train[:]
    zero = columns["x"][columns["number"] == 0]
    assert len(zero) == 19
    assert len({row.tobytes() for row in zero}) == 19  # the sample itself, and 18 repeats each in its own way
    assert sum(row.tolist() == [0.0, 0.0] for row in zero) == 1


@pytest.mark.parametrize("reads", KINDS)
@pytest.mark.parametrize("order", ["shuffled", "source"])
def test_repeats_are_marked_and_spread_over_the_shards(tmp_path, reads, order):
    build(source(reads), tmp_path / "out", balance="oversample", shards=5, order=order, run=Run(workers=1))
    paths = sorted((tmp_path / "out").glob("train-*.tfrecord"))
    indexes = [load_index(path) for path in paths]
    shares = [float((index.values["repeat"] > 0).mean()) for index in indexes]
    assert max(shares) - min(shares) < 0.2
    repeats = np.concatenate([index.values["repeat"] for index in indexes])
    numbers = np.array(numbers_in(tmp_path / "out", "train"))
    assert Counter(repeats[numbers == 20].tolist()) == Counter(range(19))
    assert (repeats[numbers % 20 != 0] == 0).all()
    rows = np.concatenate([index.values["source/row"] for index in indexes])
    parts = np.concatenate([index.values["source/partition"] for index in indexes])
    assert (parts * 250 + rows == numbers).all()


def test_a_repeat_leads_back_to_its_sample(tmp_path):
    rows = [f"{n},{'rare' if n % 20 == 0 else 'often'}" for n in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,label", *rows]))
    build(tmp_path / "rows.csv", tmp_path / "out", balance="oversample", run=Run(workers=1))
    index = load_index(tmp_path / "out" / "train-00000-of-00001.tfrecord")
    record = int(np.argmax(index.values["repeat"] == 2))
    found = bushel.provenance(tmp_path / "out", "train", record)
    row = int(found.sample["x"])
    assert found.key == f"{row}#2"
    assert found.source == f"{tmp_path / 'rows.csv'}: row {row} (repeat 2)"


def test_encoded_images_are_changed_and_encoded_again(tmp_path):
    generator = np.random.default_rng(0)
    for name, count in (("often", 30), ("rare", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            pixels = generator.integers(0, 256, (24, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    augment = [
        {"transform": "random_flip", "feature": "image"},
        {"transform": "brightness", "feature": "image"},
        {"transform": "noise", "feature": "image"},
        {"transform": "random_crop", "feature": "image", "height": 20, "width": 20},
    ]
    balance = Balance(method="oversample", augment=augment)
    for workers in (1, 2):
        build(tmp_path / "photos", tmp_path / str(workers), balance=balance, run=Run(workers=workers))
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    samples = list(bushel.scan(str(tmp_path / "1" / "train-00000-of-00001.tfrecord")))
    rare = [sample for sample in samples if sample["label"] == 1]
    assert len({sample["image"] for sample in rare}) == 30
    sizes = Counter((sample["image/height"], sample["image/width"]) for sample in rare)
    assert sizes == {(24, 32): 2, (20, 20): 28}
    for sample in rare:
        image = Image.open(io.BytesIO(sample["image"]))
        assert (image.format, image.size) == ("PNG", (sample["image/width"], sample["image/height"]))


@pytest.mark.parametrize("reads", KINDS)
def test_what_comes_again_teaches_nothing(tmp_path, reads):
    chain = [t.standardise("x")]
    for name, balance in (("plain", None), ("out", "oversample")):
        build(source(reads), tmp_path / name, transforms=chain, balance=balance, run=Run(workers=1))
    plain, balanced = (bushel.read_manifest(tmp_path / name).statistics for name in ("plain", "out"))
    assert plain["0:standardise"]["fitted"]["count"] == balanced["0:standardise"]["fitted"]["count"] == 1000
    assert balanced["0:standardise"]["fitted"]["mean"] == pytest.approx(plain["0:standardise"]["fitted"]["mean"])


@pytest.mark.parametrize("reads", KINDS)
def test_a_refused_sample_is_refused_each_time_it_comes(tmp_path, reads):
    refusing = Numbers(1000, reads, refuse=frozenset({0}), changes={"label": RARE})
    built = build(refusing, tmp_path / "out", balance="oversample", run=Run(workers=1))
    assert built.refused == 19
    assert (tmp_path / "out" / "_quarantine.jsonl").read_text().count("(repeat ") == 18


def test_a_trial_of_a_source_in_sequence_is_balanced_too(tmp_path):
    built = build(source("sequence"), tmp_path / "out", balance="oversample", limit=100, run=Run(workers=1))
    assert built.manifest.splits["train"].label_counts == {"often": 95, "rare": 95}


def test_a_build_that_was_stopped_goes_on_with_the_same_balance(tmp_path):
    class Breaks(Numbers):
        def read(self, partition, rows):
            if (tmp_path / "break").exists() and (tmp_path / "out" / "_journal" / "plan" / "plan.json").exists():
                raise OSError("stopped")
            yield from super().read(partition, rows)

    breaking = Breaks(1000, "sequence", changes={"label": RARE})
    (tmp_path / "break").touch()
    with pytest.raises(OSError, match="stopped"):
        build(breaking, tmp_path / "out", balance="oversample", run=Run(workers=1))
    (tmp_path / "break").unlink()
    build(breaking, tmp_path / "out", balance="oversample", run=Run(workers=1))
    build(source("sequence"), tmp_path / "whole", balance="oversample", run=Run(workers=1))
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def table(rows: int = 600) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    label = (np.arange(rows) % 15 == 0).astype(np.int64)
    return {
        "a": generator.normal(label * 3.0, 1.0),
        "b": generator.normal(label * 3000.0, 1000.0).round().astype(np.int64),
        "v": generator.normal(size=(rows, 2)).astype(np.float32),
        "label": label,
    }


@pytest.mark.parametrize("method", ["smote", "borderline_smote", "adasyn"])
def test_smote_and_its_relatives_make_samples_for_train_alone(tmp_path, method):
    for workers in (1, 2):
        build(
            bushel.sources.arrays(table()),
            tmp_path / str(workers),
            split="80/20",
            balance=method,
            run=Run(workers=workers),
        )
    plain = build(bushel.sources.arrays(table()), tmp_path / "plain", split="80/20", run=Run(workers=1)).manifest
    manifest = bushel.read_manifest(tmp_path / "1")
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert manifest.splits["val"].label_counts == plain.splits["val"].label_counts
    counts = manifest.splits["train"].label_counts
    assert counts == manifest.balance.after
    assert counts["1"] > 0.9 * counts["0"] == 0.9 * plain.splits["train"].label_counts["0"]
    train = bushel.open(tmp_path / "1")["train"]
    made = train.shards.values("repeat") == -1
    assert made.sum() == counts["1"] - plain.splits["train"].label_counts["1"]
    columns = train[:]
    own = (columns["label"] == 1) & ~made
    for name in ("a", "b"):  # between those that it was made from
        assert columns[name][own].min() <= columns[name][made].min()
        assert columns[name][made].max() <= columns[name][own].max()
    assert bushel.provenance(tmp_path / "1", "train", int(np.argmax(made))).source == f"made for balance ({method})"


def mixed(rows: int = 600) -> dict[str, object]:
    generator = np.random.default_rng(1)
    label = (np.arange(rows) % 15 == 0).astype(np.int64)
    cities = np.where(label == 1, generator.choice(["oslo", "rome"], rows), generator.choice(["bonn", "lima"], rows))
    return {**table(rows), "city": cities.tolist(), "code": generator.choice([7, 2**60 + 1, -3], rows)}


def test_smotenc_keeps_categories_and_makes_samples_for_train_alone(tmp_path):
    balance = Balance(method="smotenc", categories=["code"])
    for workers in (1, 2):
        source = bushel.sources.arrays(mixed())
        build(source, tmp_path / str(workers), split="80/20", balance=balance, run=Run(workers=workers))
    plain = build(bushel.sources.arrays(mixed()), tmp_path / "plain", split="80/20", run=Run(workers=1)).manifest
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    manifest = bushel.read_manifest(tmp_path / "1")
    often = plain.splits["train"].label_counts["0"]
    assert manifest.splits["train"].label_counts == {"0": often, "1": often}
    assert manifest.splits["val"].label_counts == plain.splits["val"].label_counts
    data = bushel.open(tmp_path / "1")
    made = data["train"].shards.values("repeat") == -1
    columns = data["train"][:]
    assert made.sum() == often - plain.splits["train"].label_counts["1"]
    assert set(columns["city"][made].to_list()) == {b"oslo", b"rome"}  # of its own class alone
    assert set(columns["code"][made].tolist()) == {7, 2**60 + 1, -3}
    assert len(set(columns["a"][made].tolist())) > 0.9 * made.sum()  # numbers are new ones, in between
    val = data["val"][:]
    assert sorted(val["city"].to_list()) == sorted(bushel.open(tmp_path / "plain")["val"][:]["city"].to_list())


def test_what_a_transform_encodes_is_a_category_to_smotenc(tmp_path):
    columns = {name: values for name, values in mixed().items() if name != "city"}
    source = bushel.sources.arrays(columns)
    build(source, tmp_path / "out", transforms=[t.one_hot("code")], balance="smotenc", run=Run(workers=1))
    assert (bushel.open(tmp_path / "out")["train"][:]["code"].sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("columns", "balance", "message"),
    [
        (["a", "b", "label"], "smotenc", "smotenc needs numbers and categories, and no feature is a category"),
        (["city", "label"], "smotenc", "smotenc needs numbers and categories, and no feature is a number"),
        (["a", "city", "label"], Balance(method="smotenc", categories=["a"]), "and 'a' is not"),
        (["a", "city", "label"], Balance(method="smotenc", categories=["ctiy"]), "did you mean 'city'?"),
    ],
)
def test_smotenc_says_what_it_cannot_make(tmp_path, columns, balance, message):
    source = bushel.sources.arrays({name: mixed()[name] for name in columns})
    with pytest.raises(BushelError) as caught:
        build(source, tmp_path / "out", balance=balance, run=Run(workers=1))
    assert message in "\n".join([str(caught.value), *caught.value.help])


def test_smotenc_refuses_text_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("bushel.building.planning.synthesis._MOST_BYTES", 1 << 20)
    columns = {**mixed(), "city": [f"a text of its own, {n}" for n in range(600)]}
    with pytest.raises(BushelError, match=r"smotenc would need 0 GB for the 600 categories of this data"):
        build(bushel.sources.arrays(columns), tmp_path / "out", balance="smotenc", run=Run(workers=1))


def test_smote_says_what_it_cannot_make(tmp_path):
    with pytest.raises(BushelError, match="smote makes samples only from numbers, and 'text' is text"):
        build(source("random"), tmp_path / "text", balance="smote", run=Run(workers=1))
    columns = table()
    columns["a"][3] = np.nan
    with pytest.raises(BushelError, match="samples are made from complete ones, and 'a' is missing in some"):
        build(bushel.sources.arrays(columns), tmp_path / "nan", balance="smote", run=Run(workers=1))
    alone = {**table(), "label": (np.arange(600) == 7).astype(np.int64)}
    with pytest.raises(
        BushelError, match="smote needs two samples of each class in the train split, and one class has 1"
    ):
        build(bushel.sources.arrays(alone), tmp_path / "alone", balance="smote", run=Run(workers=1))


@pytest.mark.parametrize("changes", [{"label": np.linspace(0, 1, 1000)}])
def test_what_has_no_classes_cannot_be_balanced(tmp_path, changes):
    with pytest.raises(BushelError, match="balance needs one class per sample, and the task is regression"):
        build(Numbers(1000, changes=changes), tmp_path / "out", balance="oversample", run=Run(workers=1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "oversampel"}, "did you mean 'oversample'?"),
        ({"method": "oversample", "ratio": 0}, "the ratio of balance must be above 0 and at most 1, got 0"),
        ({"method": "smote", "neighbours": 0}, "neighbours must be at least 1, got 0"),
        ({"method": "smote", "categories": ["a"]}, "categories of balance are for smotenc; got smote"),
        ({"method": "undersample", "augment": [{"transform": "jitter"}]}, "augment is for repeated samples"),
    ],
)
def test_a_balance_that_cannot_be_meant_is_refused(fields, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        Balance(**fields)


def test_a_class_with_ten_times_as_many_samples_is_said(tmp_path):
    built = build(source("random"), tmp_path / "out", run=Run(workers=1))
    assert built.problems == [
        "class 'often' has 950 samples in train, 19 times as many as 'rare' (50): "
        "see --balance, or class weights when training"
    ]
    assert bushel.plan(source("random"), Recipe(balance=Balance(method="undersample"))).problems == []


def test_class_weights_are_those_of_scikit_learn_by_label(tmp_path):
    from sklearn.utils.class_weight import compute_class_weight

    build(source("random"), tmp_path / "text", run=Run(workers=1))
    build(
        bushel.sources.arrays({**table(), "label": table()["label"] * 5 + 2}), tmp_path / "numbers", run=Run(workers=1)
    )
    for name, classes in (("text", [0, 1]), ("numbers", [2, 7])):
        data = bushel.open(tmp_path / name)
        expected = compute_class_weight("balanced", classes=np.array(classes), y=data["train"].values("label"))
        assert data.class_weights() == pytest.approx(dict(zip(classes, expected, strict=True)))
    build({"x": np.arange(5)}, tmp_path / "none", run=Run(workers=1))
    with pytest.raises(BushelError, match="there are no classes to weigh"):
        bushel.open(tmp_path / "none").class_weights()


def test_an_addition_balances_what_it_adds_and_the_manifest_sums_up(tmp_path):
    build(source("random"), tmp_path / "out", balance="oversample", run=Run(workers=1))
    more = Numbers(100, first=2000, changes={"label": BytesColumn.of(["rare"] * 10 + ["often"] * 90)})
    manifest = build(more, tmp_path / "out", run=Run(workers=1, append=True)).manifest
    assert manifest.balance.before == {"often": 1040, "rare": 60}
    assert manifest.balance.after == manifest.splits["train"].label_counts == {"often": 1040, "rare": 1040}


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ({"transform": "jitter", "feature": "y", "std": 1.0}, "transform jitter: no feature 'y'"),
        (
            {"transform": "jitter", "feature": "n", "std": 1.0},
            "augmentations fail .*: expected int64",
        ),
    ],
)
def test_an_augmentation_that_fits_no_sample_is_told_before_anything_is_written(tmp_path, augment, message):
    rows = {"n": np.arange(40), "label": np.array(["a"] * 30 + ["b"] * 10)}
    balance = Balance(method="oversample", augment=[augment])
    with pytest.raises(BushelError, match=message):
        build(rows, tmp_path / "out", balance=balance, run=Run(workers=1))
    assert not (tmp_path / "out" / "dataset.json").exists()
