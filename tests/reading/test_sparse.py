"""Sparse features: two lists in a record, one sparse column in a batch."""

from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel import Dense, Feature, Order, Schema, SchemaMismatch, SparseColumn, SparseRow, Workers

SIZE = 40
SCHEMA = Schema.of(
    x=Feature(dtype="float32", shape=(SIZE,), encoding="sparse"),
    n=Feature(dtype="int64", shape=(7,), encoding="sparse"),
    number=Feature(dtype="int64"),
)


def row(number: int, size: int = SIZE, dtype: str = "float32") -> SparseRow:
    places = np.unique(np.random.default_rng(number).integers(0, size, number % 5))
    return SparseRow(places, (places + number + 1).astype(dtype), size)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sparse") / "sparse.tfrecord"
    with bushel.Writer(path, schema=SCHEMA) as writer:
        for number in range(50):
            writer.write({"x": row(number), "n": row(number, 7, "int64"), "number": number})
        rows = range(50, 100)
        writer.write_batch(
            {
                "x": SparseColumn.of([row(number) for number in rows]),
                "n": SparseColumn.of([row(number, 7, "int64") for number in rows]),
                "number": np.array(rows),
            }
        )
    return path


def test_a_record_holds_indices_and_values(path: Path) -> None:
    record = next(iter(bushel.scan(path, schema=Schema.of(**{"x/indices": Feature(dtype="int64", shape=(None,))}))))
    assert set(record) == {"x/indices", "x/values", "n/indices", "n/values", "number"}


def test_samples_and_columns_come_back_as_they_were(path: Path) -> None:
    for number, sample in enumerate(bushel.scan(path)):
        assert sample["x"] == row(number)
        assert sample["n"] == row(number, 7, "int64")
    whole = bushel.read(path, ["x"])["x"]
    assert isinstance(whole, SparseColumn)
    assert np.array_equal(whole.to_dense(), np.stack([row(number).to_dense() for number in range(100)]))
    data = bushel.open(path)["all"]
    assert data[17]["x"] == row(17)
    assert list(data[[5, 99, 4]]["x"]) == [row(5), row(99), row(4)]
    assert np.array_equal(data.values("x").to_dense(), whole.to_dense())  # type: ignore[union-attr]
    assert data.lengths("x").tolist() == [len(row(number).places) for number in range(100)]


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("processes", [0, 2])
def test_batches_are_sparse_and_dense_on_request(path: Path, batch_size: int, processes: int) -> None:
    data = bushel.open(path)["all"]
    settings = {"order": Order(shuffle=True, seed=3), "workers": Workers(processes=processes)}
    plain = bushel.batches(data, batch_size=batch_size, **settings)
    dense = bushel.batches(data, batch_size=batch_size, layout=[Dense("x")], **settings)
    seen = 0
    for batch, other in zip(plain, dense, strict=True):
        assert batch["x"].shape == (len(batch["number"]), SIZE)
        expected = np.stack([row(number).to_dense() for number in batch["number"].tolist()])
        assert np.array_equal(batch["x"].to_dense(), expected)
        assert np.array_equal(other["x"], expected)
        assert batch["n"].values.dtype == np.int64
        seen += len(batch["number"])
    assert seen == 100


def test_transforms_see_and_give_sparse_rows(path: Path) -> None:
    class Halve:
        def apply(self, sample, draw):
            x = sample["x"]
            return {**sample, "x": SparseRow(x.places, x.values / 2, x.size)}

    batch = next(iter(bushel.batches(bushel.open(path)["all"], batch_size=20, transforms=[Halve()])))
    assert np.array_equal(batch["x"].to_dense(), np.stack([row(number).to_dense() / 2 for number in range(20)]))


def test_only_some_columns_may_be_read(path: Path) -> None:
    batch = next(iter(bushel.batches(bushel.open(path)["all"], batch_size=4, columns=["x"])))
    assert list(batch) == ["x"]
    with pytest.raises(bushel.MissingName):
        bushel.batches(bushel.open(path)["all"], batch_size=4, columns=["x/indices"])


def test_what_is_dense_cannot_be_made_dense(path: Path) -> None:
    feed = bushel.batches(bushel.open(path)["all"], batch_size=4, layout=[Dense("number")])
    with pytest.raises(SchemaMismatch, match="^only sparse features are made dense - at number$"):
        next(iter(feed))


def write_lists(path: Path, indices: list[int], values: list[float]) -> None:
    lists = Schema.of(
        **{"x/indices": Feature(dtype="int64", shape=(None,)), "x/values": Feature(dtype="float32", shape=(None,))}
    )
    with bushel.Writer(path, schema=lists) as writer:
        writer.write({"x/indices": [1], "x/values": [1.0]})
        writer.write({"x/indices": np.array(indices, np.int64), "x/values": np.array(values, np.float32)})


WRONG = [
    ([0, 1], [1.0], "a record must have as many indices as values"),
    ([0, 40], [1.0, 2.0], "indices must be at least 0 and below 40"),
    ([-1], [1.0], "indices must be at least 0 and below 40"),
    ([3, 5, 3], [1.0, 2.0, 3.0], "a record must not have an index twice"),
]


@pytest.mark.parametrize(("indices", "values", "what"), WRONG)
def test_lists_that_are_no_sparse_row_are_refused_by_record(tmp_path, indices, values, what) -> None:
    path = tmp_path / "x.tfrecord"
    write_lists(path, indices, values)
    data = bushel.open(path, schema=SCHEMA.select(["x"]))["all"]
    with pytest.raises(SchemaMismatch) as caught:
        next(iter(bushel.batches(data, batch_size=2)))
    assert caught.value.what == what
    assert caught.value.at.startswith(f"{path}: record 1/x")


def test_indices_in_any_order_are_sorted(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    write_lists(path, [5, 3], [1.0, 2.0])
    data = bushel.open(path, schema=SCHEMA.select(["x"]))["all"]
    assert data[1]["x"] == SparseRow(np.array([3, 5]), np.array([2.0, 1.0], np.float32), SIZE)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"dtype": "float32", "shape": (3, 4)}, "one known size"),
        ({"dtype": "float32", "shape": (None,)}, "one known size"),
        ({"dtype": "bytes", "shape": (3,)}, "must be float32 or int64"),
        ({"dtype": "float32", "shape": (3,), "sequence": True}, "must not be a sequence"),
    ],
)
def test_a_sparse_feature_must_be_a_vector_of_numbers(fields, what) -> None:
    with pytest.raises(ValueError, match=what):
        Feature(encoding="sparse", **fields)


def test_a_writer_refuses_sparse_rows_of_another_size(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="got sparse of size 3"), bushel.Writer(tmp_path / "x", schema=SCHEMA) as w:
        w.write({"x": SparseRow(np.array([0]), np.array([1.0]), 3), "n": row(0, 7, "int64"), "number": 0})
    with pytest.raises(SchemaMismatch, match="indices must be"), bushel.Writer(tmp_path / "x", schema=SCHEMA) as w:
        w.write({"x": SparseRow(np.array([40]), np.array([1.0]), SIZE), "n": row(0, 7, "int64"), "number": 0})
