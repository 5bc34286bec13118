"""Tables through numeric transforms: the same bytes by column and by sample, by file and by array, on any workers."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import digests

import bushel
from bushel import Run, build
from bushel import transforms as t
from bushel.errors import MissingName
from bushel.records.index import load_keys
from bushel.transforms.chain import Chain

CHAIN = [
    t.fill("age", by="median", indicator=True),
    t.standardise("age"),
    t.clip("income", low=0.0),
    t.log("income"),
    t.min_max("income"),
    t.robust_scale("height"),
    t.encode("city", unknown="code"),
    t.one_hot("colour"),
    t.bucketise("score", buckets=4),
]


def table(rows: int, *, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    age = generator.normal(40, 10, rows).round(2)
    age[::9] = np.nan
    return {
        "age": age,
        "income": generator.lognormal(10, 1, rows).round(2) - 1000,
        "height": generator.normal(170, 9, rows).round(1),
        "city": np.array([f"city{number}" for number in generator.integers(0, 12, rows)], object),
        "colour": np.array(["red", "green", "blue"], object)[generator.integers(0, 3, rows)],
        "score": generator.random(rows).round(4),
        "label": generator.integers(0, 2, rows),
        "split": np.array(["train", "train", "train", "val", "test"], object)[generator.integers(0, 5, rows)],
    }


def write_csv(path: Path, columns: dict[str, Any]) -> Path:
    lines = [",".join(columns)]
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        lines.append(",".join("" if value != value else str(value) for value in row))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", table(1500))


def given(kind: str, rows: Path) -> Any:
    return str(rows) if kind == "sequence" else bushel.sources.arrays(table(1500))


@pytest.mark.parametrize("kind", ["sequence", "random"])
def test_one_and_two_workers_learn_and_write_the_same(tmp_path, rows, kind):
    for workers in (1, 2):
        build(given(kind, rows), tmp_path / str(workers), transforms=CHAIN, split="split", run=Run(workers=workers))
    statistics = [bushel.read_manifest(tmp_path / str(workers)).statistics for workers in (1, 2)]
    assert statistics[0] == statistics[1]
    assert len(statistics[0]) == 7
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


def test_columns_and_samples_make_the_same_bytes(tmp_path, rows, monkeypatch):
    build(str(rows), tmp_path / "columns", transforms=CHAIN, split="split", run=Run(workers=1))
    monkeypatch.setattr(Chain, "apply_columns", lambda *_: None)
    monkeypatch.setattr("bushel.transforms.chain.ColumnFit", type(None))
    build(str(rows), tmp_path / "samples", transforms=CHAIN, split="split", run=Run(workers=1))
    assert digests(tmp_path / "columns") == digests(tmp_path / "samples")
    assert bushel.read_manifest(tmp_path / "columns") == bushel.read_manifest(tmp_path / "samples")


@pytest.mark.parametrize("kind", ["sequence", "random"])
def test_poison_in_val_and_test_changes_nothing_that_is_learnt(tmp_path, kind):
    clean, poisoned = table(800), table(800)
    outside = clean["split"] != "train"
    for name in ("age", "income", "height", "score"):
        poisoned[name] = np.where(outside, 1e12, poisoned[name])
    poisoned["city"] = np.where(outside, "nowhere", poisoned["city"])
    for name, columns in (("clean", clean), ("poisoned", poisoned)):
        source = write_csv(tmp_path / f"{name}.csv", columns) if kind == "sequence" else bushel.sources.arrays(columns)
        source = str(source) if kind == "sequence" else source
        build(source, tmp_path / name, transforms=CHAIN, split="split", run=Run(workers=1))
    learnt = [bushel.read_manifest(tmp_path / name).statistics for name in ("clean", "poisoned")]
    assert learnt[0] == learnt[1]
    train = [path for path in digests(tmp_path / "clean") if path.startswith("train")]
    assert all(digests(tmp_path / "clean")[path] == digests(tmp_path / "poisoned")[path] for path in train)


def test_what_is_learnt_is_what_scikit_learn_learns(tmp_path, rows):
    from sklearn.preprocessing import RobustScaler, StandardScaler

    columns = table(1500)
    train = columns["split"] == "train"
    build(str(rows), tmp_path / "out", transforms=CHAIN, split="split", run=Run(workers=2))
    learnt = bushel.read_manifest(tmp_path / "out").statistics
    age = columns["age"][train]
    filled = np.where(np.isnan(age), np.nanmedian(age), age)
    assert learnt["0:fill"]["fitted"]["value"] == np.nanmedian(age)
    scaler = StandardScaler().fit(filled[:, None])
    assert learnt["1:standardise"]["fitted"]["mean"] == pytest.approx(scaler.mean_.tolist(), rel=1e-12)
    assert learnt["1:standardise"]["fitted"]["std"] == pytest.approx(scaler.scale_.tolist(), rel=1e-12)
    robust = RobustScaler().fit(columns["height"][train][:, None])
    assert learnt["5:robust_scale"]["fitted"]["spread"] == pytest.approx(robust.scale_.tolist(), rel=1e-14)
    assert learnt["7:one_hot"]["fitted"]["names"] == ["blue", "green", "red"]


def test_raw_samples_are_prepared_as_the_build_prepared_them(tmp_path, rows):
    build(str(rows), tmp_path / "out", transforms=CHAIN, split="split", run=Run(workers=1))
    data = bushel.open(tmp_path / "out")
    columns = table(1500)
    first = int(np.flatnonzero(columns["split"] == "val")[0])
    raw = {
        name: values[first].item() if hasattr(values[first], "item") else values[first]
        for name, values in columns.items()
    }
    if raw["age"] != raw["age"]:
        del raw["age"]
    prepared = t.apply_all(data.transforms(), raw)
    keys = load_keys(tmp_path / "out" / "val-00000-of-00001.tfrecord")
    stored = data["val"][keys.to_list().index(str(first).encode())]
    for name in ("age", "income", "height", "city", "score"):
        assert prepared[name] == pytest.approx(stored[name], rel=1e-6)
    assert prepared["colour"].tolist() == stored["colour"].tolist()


def test_a_filled_feature_is_in_every_record_and_others_may_be_missing(tmp_path, rows):
    chain = [t.fill("age", value=0)]
    build(str(rows), tmp_path / "filled", transforms=chain, split="split", run=Run(workers=1))
    build(str(rows), tmp_path / "scaled", transforms=[t.standardise("age")], split="split", run=Run(workers=1))
    assert bushel.read_manifest(tmp_path / "filled").schema["age"].required
    assert not bushel.read_manifest(tmp_path / "scaled").schema["age"].required


def test_rows_that_cannot_be_transformed_are_refused_and_named(tmp_path):
    columns = table(100)
    columns["income"][7] = -5000.0
    source = write_csv(tmp_path / "rows.csv", columns)
    built = build(
        str(source), tmp_path / "out", transforms=[t.log("income", plus=2000)], split="split", run=Run(workers=1)
    )
    assert built.refused == 1
    assert "-5000.0 + 2000 has no logarithm" in (tmp_path / "out" / "_quarantine.jsonl").read_text()


def test_a_feature_that_is_not_there_is_named_with_the_nearest(tmp_path, rows):
    with pytest.raises(MissingName) as caught:
        build(str(rows), tmp_path / "out", transforms=[t.standardise("hight")], run=Run(workers=1))
    assert str(caught.value).splitlines()[0] == "transform standardise: no feature 'hight'; did you mean 'height'?"


def test_a_feature_without_a_value_in_train_is_refused(tmp_path):
    columns = table(200)
    columns["age"] = np.where(columns["split"] == "train", np.nan, columns["age"])
    source = write_csv(tmp_path / "rows.csv", columns)
    with pytest.raises(bushel.errors.BushelError) as caught:
        build(str(source), tmp_path / "out", transforms=[t.standardise("age")], split="split", run=Run(workers=1))
    assert str(caught.value) == "transform standardise: 'age' has no value in the train split to learn from"


@pytest.mark.parametrize("workers", [1, 2])
def test_checksums_are_those_of_the_files_also_where_rows_keep_their_order(tmp_path, monkeypatch, workers):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("bushel.building.shard_files.WINDOW_BYTES", 1 << 20)  # so that memory is used again and again
    rows = pa.table({"x": np.random.default_rng(0).integers(0, 255, 60_000), "text": ["word " * 20] * 60_000})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=20_000)
    built = bushel.build(tmp_path / "rows.parquet", tmp_path / "out", order="source", run=bushel.Run(workers=workers))
    (shard,) = built.manifest.splits["train"].shards
    data = (tmp_path / "out" / shard.path).read_bytes()
    assert len(data) > 8 << 20
    assert shard.sha256 == hashlib.sha256(data).hexdigest()
