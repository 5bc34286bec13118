"""Splits, datasets and feeds are streams of Arrow, for whatever reads them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image
from scipy import sparse

import bushel
from bushel import SchemaMismatch, Split
from bushel.reading import arrow_streams

ROWS = [
    {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3) + number,
        "maybe": None if number % 3 else float(number),
        "maybe_x": None if number % 2 else np.full(2, number, np.int64),
        "tokens": list(range(number % 4)),
        "name": f"n{number}",
        "words": ["a", "b"] * (number % 2),
        "label": "ab"[number % 2],
    }
    for number in range(1000)
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("arrow") / "data"
    bushel.build(ROWS, out, split="80/20", order="source")
    return out


@pytest.fixture
def train(data: Path) -> Split:
    return bushel.open(data)["train"]


def test_every_value_arrives_with_its_type(train: Split) -> None:
    table = pa.table(train)
    assert table.schema.field("x").type == pa.fixed_shape_tensor(pa.float32(), (2, 3))
    assert table.schema.field("label").type == pa.dictionary(pa.int32(), pa.string())
    assert table.column_names == list(train.schema)
    numbers = [int(name[1:]) for name in table["name"].to_pylist()]
    wanted = [ROWS[number] for number in numbers]
    for name in ("maybe", "tokens", "words", "label"):
        assert table[name].to_pylist() == [row[name] for row in wanted], name
    found = [None if cell is None else list(cell) for cell in table["maybe_x"].to_pylist()]
    assert found == [None if row["maybe_x"] is None else row["maybe_x"].tolist() for row in wanted]
    tensors = np.concatenate([chunk.to_numpy_ndarray() for chunk in table["x"].chunks])
    np.testing.assert_array_equal(tensors, [row["x"] for row in wanted])


def test_polars_duckdb_and_pandas_read_a_split(train: Split) -> None:
    counts = dict(pl.DataFrame(train)["label"].cast(pl.String).value_counts().rows())
    assert counts == {name: len(train.filter(f"label == '{name}'")) for name in "ab"}
    assert dict(duckdb.sql("select label, count(*) from train group by label").fetchall()) == counts
    assert pd.DataFrame.from_arrow(train)["label"].value_counts().to_dict() == counts
    assert pl.from_arrow(train).len() == len(train)


def test_pandas_gets_tensors_with_their_shape(train: Split) -> None:
    frame = train.to_pandas(["x", "maybe_x"])
    assert frame["x"][0].shape == (2, 3)
    assert frame["maybe_x"].isna().sum() == len(train) - frame["maybe_x"].notna().sum() > 0


def test_a_dataset_is_all_splits_and_says_which(data: Path) -> None:
    opened = bushel.open(data)
    table = pa.table(opened)
    assert table.group_by("split").aggregate([([], "count_all")]).sort_by("split").to_pylist() == [
        {"split": name, "count_all": len(opened[name])} for name in ("train", "val")
    ]
    assert dict(opened.items()).keys() == {"train", "val"}  # a mapping, with all that mappings have


def test_a_feed_is_its_batches(train: Split) -> None:
    feed = bushel.batches(train, batch_size=300, columns=["label", "tokens"], drop_last=True)
    batches = list(pa.RecordBatchReader.from_stream(feed))
    assert [len(batch) for batch in batches] == [300, 300]
    assert batches[0]["label"].to_pylist() == train[:300]["label"].tolist()  # type: ignore[union-attr]


def test_batches_hold_some_megabytes_and_are_read_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bushel.build({"x": np.zeros((4000, 64), np.float32)}, tmp_path / "out")
    monkeypatch.setattr(arrow_streams, "_BATCH_BYTES", 64_000)
    split, read = bushel.open(tmp_path / "out")["train"], []
    original = Split.read

    def counted(self: Split, rows: Any, columns: Any = None) -> Any:
        read.append(len(rows))
        return original(self, rows, columns)

    monkeypatch.setattr(Split, "read", counted)
    reader = pa.RecordBatchReader.from_stream(split)
    assert read == []
    sizes = [len(reader.read_next_batch()) for _ in range(3)]
    assert max(sizes) <= 256
    assert sum(read) < 4000
    assert sum(sizes) + len(reader.read_all()) == 4000


def test_dates_images_and_sparse_rows_have_types_that_others_know(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for number in range(3):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / "p" / f"{number}.png")
    bushel.build(tmp_path / "p", tmp_path / "images")
    table = pa.table(bushel.open(tmp_path / "images")["train"])
    assert {row["bytes"][:4] for row in table["image"].to_pylist()} == {b"\x89PNG"}
    (tmp_path / "d.csv").write_text("when\n2020-01-02\n1969-12-31\n")
    bushel.build(tmp_path / "d.csv", tmp_path / "dates", order="source")
    dates = pa.table(bushel.open(tmp_path / "dates")["train"])["when"].to_pylist()
    assert dates == [datetime(2020, 1, 2, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)]
    matrix = sparse.csr_array(np.eye(3, 7, dtype=np.float32))
    bushel.build({"x": matrix}, tmp_path / "sparse", order="source")
    lists = pa.table(bushel.open(tmp_path / "sparse")["train"])
    assert lists["x/indices"].to_pylist() == [[0], [1], [2]]


def test_datasets_of_hugging_face_show_the_images(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "p").mkdir()
    Image.new("RGB", (4, 6)).save(tmp_path / "p" / "0.png")
    bushel.build(tmp_path / "p", tmp_path / "images")
    found = datasets.Dataset(pa.table(bushel.open(tmp_path / "images")["train"]))
    assert found[0]["image"].size == (4, 6)


def test_a_label_that_is_missing_is_null_and_a_code_without_a_name_is_an_error(tmp_path: Path) -> None:
    for codes, result in (([0, -1, 1], ["a", None, "b"]), ([0, 5], None)):
        path = tmp_path / f"{len(codes)}.tfrecord"
        with bushel.Writer(path) as writer:
            for code in codes:
                writer.write({"label": code})
        split = bushel.open(path)[next(iter(bushel.open(path)))]
        split.classes = ["a", "b"]
        if result is None:
            with pytest.raises(SchemaMismatch, match="the label 5 has no name among 2 classes"):
                split.to_arrow()
        else:
            assert split.to_arrow()["label"].to_pylist() == result


def test_no_records_are_a_stream_with_a_schema(train: Split) -> None:
    assert pa.table(train.filter("name == 'nobody'")).schema == pa.table(train).schema


def streams(train: Split) -> Iterator[tuple[str, Any]]:
    yield "reader", pa.RecordBatchReader.from_stream(train)
    yield "relation", duckdb.sql("select * from train")
    yield "dataset of pyarrow", pa.dataset.dataset(pa.table(train).drop_columns(["x", "maybe_x"]))
    yield "split", train


def test_a_stream_is_built(train: Split, tmp_path: Path) -> None:
    import pyarrow.dataset  # noqa: F401

    for name, stream in streams(train):
        out = tmp_path / name
        bushel.build(stream, out, order="source")
        built = bushel.open(out)["train"]
        assert list(built.classes) == ["a", "b"], name
        assert built[:]["name"] == train[:]["name"], name
        assert built[:]["maybe"].to_list() == train[:]["maybe"].to_list(), name  # type: ignore[union-attr]
    assert built.schema["x"].shape == (2, 3)
