"""Records are joined to those of another dataset, a table or a stream by a key, each time they are read."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import bushel
from bushel import BushelError, BushelWarning, MissingName, Order, SchemaMismatch, Workers
from tests.reading.conftest import flip

KEYS = [f"k{number}" for number in range(50)]
KNOWN = 45  # of the keys, by what is joined


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("images") / "data"
    rows = [{"key": key, "x": float(number), "label": "ab"[number % 2]} for number, key in enumerate(KEYS)]
    bushel.build(rows, out, split="80/20")
    return out


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vectors") / "data"
    rows: list[dict[str, Any]] = [
        {"key": key, "vector": np.full(4, number, np.float32), "words": ["w"] * (number % 3), "number": number}
        for number, key in enumerate(KEYS[:KNOWN])
    ]
    bushel.build(rows, out, split="50/50", shards=2)
    return out


def test_every_record_gets_the_features_of_its_key_in_any_order(images: Path, vectors: Path) -> None:
    joined = bushel.join(bushel.open(images)["train"], vectors, on="key", missing="drop")
    feed = bushel.batches(joined, batch_size=7, order=Order(shuffle=True, seed=3), epochs=2)
    seen = []
    for batch in feed:
        np.testing.assert_array_equal(batch["vector"], np.repeat(batch["x"], 4).reshape(-1, 4))
        np.testing.assert_array_equal(batch["number"], batch["x"])
        seen += [int(key[1:]) for key in batch["key"]]
    assert sorted(seen) == sorted([int(x) for x in joined.values("x")] * 2)


def test_records_whose_key_is_missing_are_counted_and_lack_the_features(images: Path, vectors: Path) -> None:
    with pytest.warns(BushelWarning, match=r'5 of 50 records have a key that is not in .*missing="drop"'):
        joined = bushel.join(bushel.open(images), vectors, on="key")
    assert {name: len(split) for name, split in joined.items()} == {
        name: len(split) for name, split in bushel.open(images).items()
    }
    for split in joined.values():
        assert not split.schema["vector"].required
        for number in range(len(split)):
            sample = split[number]
            assert ("vector" in sample) == (sample["x"] < KNOWN)
            assert sample.get("number", sample["x"]) == sample["x"]


def test_a_complete_join_needs_no_word_and_keeps_features_required(images: Path) -> None:
    joined = bushel.join(bushel.open(images), {"key": KEYS, "number": np.arange(50)}, on="key", missing="raise")
    assert joined["train"].schema["number"].required
    assert joined.classes == ["a", "b"]


def test_missing_keys_can_be_an_error(images: Path, vectors: Path) -> None:
    with pytest.raises(BushelError, match="5 of 50 records have a key that is not in"):
        bushel.join(images, vectors, on="key", missing="raise")
    with pytest.raises(BushelError, match="no record can be joined: 50 of 50"):
        bushel.join(images, {"key": ["other"], "z": [1]}, on="key")
    with pytest.raises(ValueError, match="missing must be one of keep, drop, raise"):
        bushel.join(images, vectors, on="key", missing="ignore")  # type: ignore[call-overload]


def _frames() -> dict[str, Any]:
    table = pa.table({"id": KEYS, "number": list(range(50))})
    return {
        "frame": pl.from_arrow(table),
        "table": table,
        "stream": pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        "arrays": {"id": KEYS, "number": np.arange(50)},
    }


@pytest.mark.parametrize("kind", ["frame", "table", "stream", "arrays"])
def test_tables_and_streams_are_joined_by_two_names(images: Path, kind: str) -> None:
    train = bushel.open(images)["train"]
    joined = bushel.join(train, _frames()[kind], on=("key", "id"))
    np.testing.assert_array_equal(joined.values("number"), train.values("x"))


def test_raw_data_can_be_joined_to(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["id,x", *(f"{number},{number / 2}" for number in range(1000, 1040))]))
    joined = bushel.join(path, {"id": np.arange(1000, 1040), "double": np.arange(1000, 1040) * 2}, on="id")
    (split,) = joined.values()
    np.testing.assert_array_equal(split.values("double"), np.asarray(split.values("id")) * 2)


def test_classes_are_joined_by_name_since_codes_may_differ(images: Path) -> None:
    colours = [{"label": "c", "colour": "c"}, {"label": "b", "colour": "is b"}, {"label": "a", "colour": "is a"}]
    train = bushel.join(images, bushel.open_raw(colours), on="label")["train"]
    assert {(train.classes[train[n]["label"]], train[n]["colour"]) for n in range(10)} == {
        ("a", "is a"),
        ("b", "is b"),
    }


def test_labels_can_come_from_the_other_side_with_their_names(images: Path) -> None:
    bare = bushel.open(images)["train"].select(["key", "x"])
    labels = bushel.open_raw({"key": KEYS, "label": ["odd" if n % 2 else "even" for n in range(50)]}, label="label")
    joined = bushel.join(bare, labels, on="key")
    assert joined.classes == ["even", "odd"]
    assert len(joined.filter("label == 'odd'")) == sum(int(x) % 2 for x in bare.values("x"))


def test_selections_lengths_changes_and_arrow_see_joined_features(images: Path, vectors: Path) -> None:
    joined = bushel.join(bushel.open(images)["train"], vectors, on="key", missing="drop")
    few = joined.filter("number >= 10 and length(words) > 1").sort("number", descending=True)
    found = np.asarray(few.values("number"))
    assert list(found) == sorted((int(x) for x in joined.values("x") if x >= 10 and x % 3 == 2), reverse=True)
    assert few.map("number", lambda number: -number)[0]["number"] == -found[0]
    assert pa.table(joined)["number"].to_pylist() == pa.table(joined)["x"].to_pylist()
    assert few.select(["number"])[0] == {"number": found[0]}


def test_two_joins_can_follow_each_other(images: Path, vectors: Path) -> None:
    first = bushel.join(bushel.open(images)["train"], vectors, on="key", columns=["number"], missing="drop")
    second = bushel.join(first, {"number": np.arange(50), "square": np.arange(50) ** 2}, on="number")
    np.testing.assert_array_equal(second.values("square"), np.asarray(second.values("x")) ** 2)


def test_sparse_features_of_missing_keys_are_zero(images: Path) -> None:
    counts = sparse.csr_matrix(np.diag(np.arange(1, 11, dtype=np.float32)))
    terms = bushel.open_raw({"key": KEYS[:10], "terms": counts})
    with pytest.warns(BushelWarning, match="40 of 50"):
        joined = bushel.join(bushel.open(images), terms, on="key")
    for batch in bushel.batches(joined["train"], batch_size=16):
        sums = batch["terms"].to_dense().sum(1)
        np.testing.assert_array_equal(sums, np.where(batch["x"] < 10, batch["x"] + 1, 0))


def test_a_join_travels_to_other_processes(images: Path, vectors: Path) -> None:
    joined = bushel.join(bushel.open(images)["train"], vectors, on="key", missing="drop")
    assert pickle.loads(pickle.dumps(joined))[3]["number"] == joined[3]["x"]
    with bushel.batches(joined, batch_size=64, workers=Workers(processes=1)) as feed:
        batch = next(feed)
    np.testing.assert_array_equal(batch["number"], batch["x"])


def test_a_damaged_record_on_the_other_side_is_named_and_can_be_skipped(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    bushel.build([{"key": key, "number": number} for number, key in enumerate(KEYS)], out, order="source")
    joined = bushel.join(bushel.open(images)["train"], bushel.open(out), on="key")
    (shard,) = out.glob("*.tfrecord")
    flip(shard, at=shard.stat().st_size // 2)
    again = pickle.loads(pickle.dumps(joined))
    with pytest.raises(SchemaMismatch, match=r"record \d+ of .*checksum of the length does not match"):
        list(bushel.batches(again, batch_size=64))
    feed = bushel.batches(again, batch_size=64, on_fault="skip")
    (batch,) = feed
    assert len(batch["number"]) == len(joined) - 1
    assert "cannot be joined" in feed.report().faults[0].why


def test_what_cannot_be_joined_is_refused_in_a_line(images: Path, vectors: Path) -> None:
    data = bushel.open(images)
    with pytest.raises(MissingName, match="no feature 'kex'; did you mean 'key'"):
        bushel.join(data, vectors, on="kex")
    with pytest.raises(MissingName, match="no feature 'vectors'"):
        bushel.join(data, vectors, on="key", columns=["vectors"])
    with pytest.raises(ValueError, match=r"already there \(label, x\)"):
        bushel.join(data, images, on="key")
    with pytest.raises(SchemaMismatch, match="keys are text here, and numbers in"):
        bushel.join(data, {"key": [1, 2], "z": [1, 2]}, on="key")
    with pytest.raises(SchemaMismatch, match="a key is one text or whole number, and this is float32"):
        bushel.join(data, vectors, on=("x", "key"))
    with pytest.raises(BushelError, match=r"1 key in more than one record, such as 'k1'"):
        bushel.join(data, {"key": ["k1", "k2", "k1"], "z": [1, 2, 3]}, on="key")
    with pytest.raises(ValueError, match="mix them first"):
        bushel.mix([bushel.join(data["train"], {"key": KEYS, "z": np.arange(50)}, on="key")] * 2)


def test_a_compressed_file_of_others_is_not_joined_as_it_is_not_read_at_random(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.tfrecord"
    with bushel.Writer(path) as writer:
        writer.write({"key": "k1", "z": 1})
    old = path.with_suffix(".tfrecord.gz")
    old.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(BushelError, match="what is joined is read at random"):
        bushel.join(images, old, on="key")


def test_a_join_can_be_built(images: Path, vectors: Path, tmp_path: Path) -> None:
    joined = bushel.join(images, vectors, on="key", missing="drop")
    bushel.build(joined, tmp_path / "built")
    built = bushel.open(tmp_path / "built")
    assert {name: len(split) for name, split in built.items()} == {name: len(split) for name, split in joined.items()}
    np.testing.assert_array_equal(built["train"].values("number"), built["train"].values("x"))
