"""Raw data is read without a build, with the labels, splits, order and values that a build would give it."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy import sparse

import bushel
from bushel import BushelError, Order, Workers, sources
from bushel import transforms as t
from bushel.data.columns import Ragged, SparseColumn
from bushel.reading import raw


def write_photos(folder: Path, count: int = 60) -> Path:
    noise = np.random.default_rng(0)
    for number in range(count):
        place = folder / ("cat", "dog", "owl")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 255, (12 + number % 4, 16, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.{'png' if number % 2 else 'jpg'}")
    return folder


def write_official(folder: Path) -> Path:
    write_photos(folder / "train", 30)
    write_photos(folder / "test", 9)
    return folder


def write_csv(path: Path) -> Path:
    lines = [f"{n},{n / 7},{'' if n % 9 == 4 else n},{('oak', 'elm')[n % 2]}" for n in range(150)]
    path.write_text("\n".join(["count,height,age,label", *lines]))
    return path


def write_parquet(path: Path) -> Path:
    numbers = np.arange(90)
    lists = [list(range(n % 4)) for n in range(90)]
    table = pa.table({"x": numbers / 3, "tokens": lists, "label": [f"class {n % 5}" for n in range(90)]})
    pq.write_table(table, path, row_group_size=20)
    return path


def write_texts(folder: Path) -> Path:
    for number in range(40):
        place = folder / ("pos" if number % 2 else "neg")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"tëxt {number}")
    return folder


def write_lines(path: Path) -> Path:
    path.write_text("".join(f"line {number}\n" for number in range(70)))
    return path


def some_arrays(_: Path) -> Any:
    noise = np.random.default_rng(1)
    return {"image": noise.integers(0, 255, (50, 4, 4)), "label": np.arange(50) % 3}


def some_sparse(_: Path) -> Any:
    return sparse.random(40, 300, 0.05, "csr", dtype=np.float32, random_state=0), np.arange(40) % 2


def some_samples(_: Path) -> Any:
    return [{"x": n, "tokens": [n] * (n % 3), "label": "even" if n % 2 == 0 else "odd"} for n in range(45)]


def some_windows(path: Path) -> Any:
    lines = [f"{series},{n},{n % 10}" for series in "abcdef" for n in range(64)]
    path.write_text("\n".join(["id,t,ax", *lines]))
    return sources.series(path, time="t", series="id", length=8)


DATA: dict[str, Callable[[Path], Any]] = {
    "photos": write_photos,
    "official": write_official,
    "rows.csv": write_csv,
    "rows.parquet": write_parquet,
    "texts": write_texts,
    "lines.txt": write_lines,
    "arrays": some_arrays,
    "sparse": some_sparse,
    "samples": some_samples,
    "logs.csv": some_windows,
}


def plain(column: Any) -> Any:
    if isinstance(column, Ragged):
        return [
            plain(column.values),
            column.row_splits.tolist(),
            None if column.present is None else column.present.tolist(),
        ]
    if isinstance(column, SparseColumn):
        return column.to_dense().tolist()
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(plain(one[name]) == plain(other[name]) for name in one)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("split", [None, "80/20"])
def test_batches_of_raw_data_are_those_of_a_build(name: str, split: str | None, tmp_path: Path) -> None:
    data = DATA[name](tmp_path / name)
    bushel.build(data, tmp_path / "built", split=split, seed=3)
    built, opened = bushel.open(tmp_path / "built"), bushel.open_raw(data, split=split, seed=3)
    assert list(opened) == list(built)
    assert opened.schema.features == built.schema.features
    assert opened.label == built.label
    for part in built:
        assert len(opened[part]) == len(built[part])
        pairs = zip(bushel.batches(built[part], batch_size=7), bushel.batches(opened[part], batch_size=7), strict=True)
        assert all(same(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", ["photos", "rows.csv", "arrays"])
def test_shuffled_batches_and_ranks_and_transforms_are_those_of_a_build(name: str, tmp_path: Path) -> None:
    data = DATA[name](tmp_path / name)
    bushel.build(data, tmp_path / "built")
    built, opened = bushel.open(tmp_path / "built")["train"], bushel.open(data)["train"]
    steps = [t.decode_image("image"), t.resize("image", 8, 8)] if name == "photos" else []
    orders = [
        Order(shuffle=True, seed=5),
        Order(shuffle=True, rank=1, world=3, uneven="pad"),
        Order(shuffle=True, block=8),
        Order(shuffle=True, balance="label"),
    ]
    for order in orders:
        settings: dict[str, Any] = {"batch_size": 8, "order": order, "epochs": 2, "transforms": steps}
        pairs = zip(bushel.batches(built, **settings), bushel.batches(opened, **settings), strict=True)
        assert all(same(one, other) for one, other in pairs)


def test_every_sample_comes_once_however_it_is_shuffled(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    feed = bushel.batches(tmp_path / "photos", batch_size=7, order=Order(shuffle=True, seed=1))
    first = [key for batch in feed for key in batch["key"].to_list()]
    assert len(set(first)) == len(first) == 60
    second = [key for batch in feed for key in batch["key"].to_list()]
    assert sorted(second) == sorted(first)
    assert second != first


def test_reading_raw_data_continues_where_it_stopped_and_pickles(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch_size": 8, "order": Order(shuffle=True, seed=2), "epochs": 2}
    for data in (write_photos(tmp_path / "photos"), write_csv(tmp_path / "rows.csv")):
        feed = bushel.batches(data, **settings)
        next(feed), next(feed)
        state = feed.state()
        rest = [batch["label"].tolist() for batch in feed]
        again = bushel.batches(data, **settings)
        again.restore(state)
        moved = pickle.loads(pickle.dumps(again))
        assert [batch["label"].tolist() for batch in again] == rest
        assert [batch["label"].tolist() for batch in moved] == rest


def test_processes_give_the_same_batches(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 20)
    here = bushel.batches(tmp_path / "photos", batch_size=6)
    with bushel.batches(tmp_path / "photos", batch_size=6, workers=Workers(processes=1)) as feed:
        assert all(same(one, other) for one, other in zip(here, feed, strict=True))


def test_a_sample_that_a_build_refuses_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos", 12)
    (folder / "cat" / "cut.jpg").write_bytes((folder / "cat" / "0.jpg").read_bytes()[:300])
    with pytest.raises(BushelError, match=r"cut\.jpg: decode: ") as caught:
        list(bushel.batches(folder, batch_size=4))
    assert caught.value.help == ('A build refuses such a sample; on_fault="skip" leaves it out.',)


@pytest.mark.parametrize("on_fault", ["skip", "replace"])
def test_refused_samples_are_skipped_or_replaced_and_counted_with_the_reason(on_fault: Any, tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos", 12)
    (folder / "cat" / "cut.jpg").write_bytes((folder / "cat" / "0.jpg").read_bytes()[:300])
    feed = bushel.batches(folder, batch_size=4, on_fault=on_fault)
    found = list(feed)
    real = sum(len(batch.rows) if batch.real is None else int(batch.real.sum()) for batch in found)
    assert real == 12
    [fault] = feed.report().faults
    assert fault.path.endswith("cut.jpg")
    assert fault.why.startswith("decode: ")
    assert f"1 damaged, the first: {fault.path}: {fault.why}" in str(feed.report())


def test_values_that_a_build_refuses_are_faults_too(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,label\n1.5,a\ninf,a\n2.5,\n3.5,b\n")
    feed = bushel.batches(tmp_path / "rows.csv", batch_size=8, on_fault="skip")
    assert sorted(next(feed)["x"].tolist()) == [1.5, 3.5]
    built = bushel.build(tmp_path / "rows.csv", tmp_path / "built", run=bushel.Run(max_bad=10))
    assert len(feed.report().faults) == built.refused


def test_transforms_that_learn_are_fitted_to_the_train_split_as_by_a_build(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv")
    steps = [t.standardise("height")]
    bushel.build(path, tmp_path / "built", split="70/30", transforms=steps)
    opened = bushel.open_raw(path, split="70/30")
    for part in ("train", "val"):
        found = next(bushel.batches(opened[part], batch_size=1000, transforms=steps))["height"]
        np.testing.assert_allclose(found, bushel.open(tmp_path / "built")[part][:]["height"], atol=1e-6)


def test_what_reads_in_sequence_and_is_too_large_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "rows.csv")
    monkeypatch.setattr(raw, "HELD_BYTES", 1000)
    with pytest.raises(BushelError, match="is read in sequence") as caught:
        bushel.batches(path, batch_size=4)
    assert caught.value.help == (f"Build it first: bushel build {path} OUT",)


def test_one_of_several_splits_must_be_named(tmp_path: Path) -> None:
    folder = write_official(tmp_path / "photos")
    with pytest.raises(ValueError, match="data must be one split of the splits train, test"):
        bushel.batches(folder, batch_size=4)
    assert sum(len(batch.rows) for batch in bushel.batches(folder, "test", batch_size=4)) == 9


def test_labels_select_and_balance_without_reading_images(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    opened = bushel.open(folder)["train"]
    codes = opened.values("label")
    for path in folder.rglob("*.*"):
        path.unlink()
    assert np.bincount(codes).tolist() == [20, 20, 20]
    assert len(opened.where("label", 1)) == 20


def test_tfrecords_without_a_suffix_are_still_tfrecords(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data-00000-of-00001") as writer:
        writer.write({"x": 1})
    (tmp_path / "README.md").write_text("Some records.")
    assert not bushel.open(tmp_path / "data-00000-of-00001")["all"].is_raw
    with pytest.raises(bushel.FileProblem, match="there is no such file"):
        bushel.open(tmp_path / "nothing")


def test_tfrecords_next_to_files_that_describe_them_are_tfrecords(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "mnist-train.tfrecord-00000-of-00001") as writer:
        writer.write({"x": 1})
    for name in ("notes.json", "licence.json", "labels.txt"):
        (tmp_path / name).write_text("{}")
    assert list(bushel.open(tmp_path)) == ["train"]
    assert not bushel.open(tmp_path)["train"].is_raw


def test_raw_data_is_not_mixed_with_datasets(tmp_path: Path) -> None:
    opened = bushel.open(write_csv(tmp_path / "rows.csv"))["train"]
    with pytest.raises(ValueError, match="splits to be mixed must be of datasets"):
        bushel.mix([opened, opened])
