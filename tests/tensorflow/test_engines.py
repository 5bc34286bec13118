"""Both engines: the same samples, the same values, the same types."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Bucket, Feature, Order, Pack, Pad, Schema, Sparse
from bushel.reading.order import BufferedShuffle
from bushel.tensorflow import dataset, parse_fn

tf = pytest.importorskip("tensorflow")

ENGINES = ["native", "graph"]
Plain = Callable[[Any], Any]


def labels(made: Any) -> list[int]:
    return [int(label) for batch in made for label in batch[1]]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_feature_and_the_label_come_as_a_pair_of_known_shapes(floats: Path, engine: str) -> None:
    made = dataset(floats, "train", batch_size=20, engine=engine)
    assert made.element_spec == (tf.TensorSpec([20, 4], tf.float32), tf.TensorSpec([20], tf.int64))
    assert made.cardinality() == 5
    x, y = next(iter(made))
    np.testing.assert_array_equal(x, np.arange(80, dtype=np.float32).reshape(20, 4))
    np.testing.assert_array_equal(y, np.arange(20))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("drop_last", "rows", "steps"), [(False, None, 4), (True, 32, 3)])
def test_the_last_batch_is_smaller_or_left_out(
    floats: Path, engine: str, drop_last: bool, rows: int | None, steps: int
) -> None:
    made = dataset(floats, batch_size=32, drop_last=drop_last, engine=engine)
    assert made.element_spec[0].shape.as_list() == [rows, 4]
    assert made.cardinality() == steps == len(list(made))
    assert labels(made) == list(range(96 if drop_last else 100))


@pytest.mark.parametrize("fixture", ["floats", "mixed", "clips"])
def test_engines_agree_bit_by_bit(fixture: str, request: pytest.FixtureRequest, to_plain: Plain) -> None:
    path = request.getfixturevalue(fixture)
    native, graph = (dataset(path, batch_size=16, engine=engine) for engine in ENGINES)
    assert native.element_spec == graph.element_spec
    assert native.cardinality() == graph.cardinality()
    ours, theirs = [to_plain(batch) for batch in native], [to_plain(batch) for batch in graph]
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fixture", ["mixed", "clips"])
def test_values_are_those_of_the_records_parsed_by_hand(
    fixture: str, engine: str, request: pytest.FixtureRequest, to_plain: Plain
) -> None:
    path = request.getfixturevalue(fixture)
    schema = bushel.open(path)["all"].schema
    by_hand = tf.data.TFRecordDataset(str(path)).batch(16).map(parse_fn(schema))
    for (x, y), parsed in zip(dataset(path, batch_size=16, engine=engine), by_hand, strict=True):
        assert repr(to_plain({**x, "label": y})) == repr(to_plain({name: parsed[name] for name in (*x, "label")}))


@pytest.mark.parametrize("engine", ENGINES)
def test_shuffled_epochs_cover_every_sample_once_and_differ(floats: Path, engine: str) -> None:
    made = dataset(floats, batch_size=16, order=Order(shuffle=True, seed=3), engine=engine)
    first, second = labels(made), labels(made)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    again = dataset(floats, batch_size=16, order=Order(shuffle=True, seed=3), engine=engine)
    assert labels(again) == first
    assert labels(again) == second


def test_a_graph_that_cannot_shuffle_all_at_once_says_so(floats: Path) -> None:
    order = Order(shuffle=True, buffer=10)
    with pytest.warns(BufferedShuffle, match='engine="graph" shuffles by shard, and in a buffer of 10 records'):
        made = dataset(floats, batch_size=16, order=order, engine="graph")
    assert sorted(labels(made)) == list(range(100))


@pytest.mark.parametrize("engine", ENGINES)
def test_several_epochs_in_one_pass_do_not_share_a_batch(floats: Path, engine: str) -> None:
    made = dataset(floats, batch_size=64, order=Order(shuffle=True), epochs=2, engine=engine)
    assert made.cardinality() == 4
    batches = [labels([batch]) for batch in made]
    assert [len(batch) for batch in batches] == [64, 36, 64, 36]
    assert sorted(batches[0] + batches[1]) == sorted(batches[2] + batches[3]) == list(range(100))


@pytest.mark.parametrize("engine", ENGINES)
def test_without_end_it_says_so(floats: Path, engine: str) -> None:
    made = dataset(floats, batch_size=50, epochs=None, engine=engine)
    assert made.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(list(made.take(5))) == 5


@pytest.mark.parametrize("engine", ENGINES)
def test_compression_is_told_from_the_bytes(tmp_path: Path, engine: str) -> None:
    for number, compression in enumerate([None, "gzip", "zlib"]):
        with bushel.Writer(tmp_path / f"part-{number}", compression=compression) as writer:
            writer.write_batch({"x": np.full((5, 2), number, np.float32), "label": np.arange(5) + 5 * number})
    assert labels(dataset(tmp_path, batch_size=4, engine=engine)) == list(range(15))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_have_equal_steps_and_share_the_samples(floats: Path, engine: str, uneven: Any, drop_last: bool) -> None:
    parts = [
        dataset(
            floats,
            batch_size=16,
            order=Order(rank=rank, world=3, uneven=uneven),
            drop_last=drop_last,
            engine=engine,
        )
        for rank in range(3)
    ]
    assert len({int(part.cardinality()) for part in parts}) == 1
    batches = [[tuple(np.asarray(value) for value in batch) for batch in part] for part in parts]
    assert [[len(batch[1]) for batch in part] for part in batches] == [[len(b[1]) for b in batches[0]]] * 3
    real = [int(y) for part in batches for batch in part for y, w in zip(batch[1], _weights(batch), strict=True) if w]
    expected = {("drop", False): 99, ("drop", True): 96}.get((uneven, drop_last), 100)
    assert sorted(real) == list(range(expected))


def _weights(batch: tuple[Any, ...]) -> Any:
    return batch[2] if len(batch) == 3 else np.ones(len(batch[1]))


def test_ranks_read_the_same_with_both_engines(floats: Path, to_plain: Plain) -> None:
    for uneven in ("drop", "pad"):
        for rank in range(3):
            order = Order(rank=rank, world=3, uneven=uneven)
            native, graph = (dataset(floats, batch_size=16, order=order, engine=engine) for engine in ENGINES)
            assert [to_plain(batch) for batch in native] == [to_plain(batch) for batch in graph]
            assert native.element_spec == graph.element_spec


@pytest.mark.parametrize("pad", [Pad("tokens"), Pad("tokens", multiple=4), Pad("tokens", length=5, fill=-1)])
def test_padding_is_the_same_with_both_engines(mixed: Path, pad: Pad, to_plain: Plain) -> None:
    columns = ["tokens", "label"]
    native, graph = (dataset(mixed, batch_size=16, columns=columns, layout=[pad], engine=engine) for engine in ENGINES)
    assert native.element_spec == graph.element_spec
    assert native.element_spec[0]["tokens"].shape.as_list() == [None, pad.length]
    assert [to_plain(batch) for batch in native] == [to_plain(batch) for batch in graph]


def test_rows_of_several_dimensions_are_padded_the_same(mixed: Path, to_plain: Plain) -> None:
    layout = [Pad("boxes", multiple=2, mask=False)]
    made = [dataset(mixed, batch_size=10, columns=["boxes"], layout=layout, engine=engine) for engine in ENGINES]
    assert made[0].element_spec == made[1].element_spec == tf.TensorSpec([10, None, 4], tf.float32)
    assert [to_plain(batch) for batch in made[0]] == [to_plain(batch) for batch in made[1]]


@pytest.mark.parametrize("engine", ENGINES)
def test_buckets_hold_rows_of_like_length(mixed: Path, engine: str) -> None:
    layout = [Bucket("tokens", window=8), Pad("tokens")]
    columns = ["tokens", "label", "name"]
    made = dataset(mixed, batch_size=7, columns=columns, layout=layout, order=Order(shuffle=True), engine=engine)
    batches = list(made)
    spread = [int(np.ptp(np.asarray(x["tokens/mask"]).sum(axis=1))) for x, _ in batches]
    assert max(spread[:-1]) <= 2
    names = [name for x, _ in batches for name in x["name"].numpy().tolist()]
    assert sorted(names) == sorted(f"record {number}".encode() for number in range(50))


def test_sparse_columns_are_joined_the_same_with_both_engines(sparse: Path, to_plain: Plain) -> None:
    native, graph = (dataset(sparse, batch_size=8, layout=[Sparse("tfidf", 20)], engine=engine) for engine in ENGINES)
    assert native.element_spec == graph.element_spec
    assert native.element_spec[0] == tf.SparseTensorSpec([None, 20], tf.float32)
    assert [to_plain(batch) for batch in native] == [to_plain(batch) for batch in graph]


def test_a_run_goes_on_behind_the_batches_it_has_read(floats: Path) -> None:
    order = Order(shuffle=True, seed=1)
    whole = dataset(floats, batch_size=16, order=order)
    epochs = [[labels([batch]) for batch in whole] for _ in range(3)]
    for skip in (0, 1, 7, 9):
        made = dataset(floats, batch_size=16, order=order, skip=skip)
        rest = [[labels([batch]) for batch in made] for _ in range(2)]
        epoch, step = divmod(skip, 7)
        assert rest == [epochs[epoch][step:], epochs[epoch + 1]]


def test_an_iterator_left_early_does_not_shift_the_next(floats: Path) -> None:
    order = Order(shuffle=True, seed=1)
    whole = dataset(floats, batch_size=16, order=order)
    second = [labels(whole), labels(whole)][1]
    left = dataset(floats, batch_size=16, order=order)
    next(iter(left))
    assert labels(left) == second


def test_features_that_describe_a_record_are_read_when_they_are_named(photos: Path) -> None:
    image, label = dataset(photos, batch_size=4).element_spec
    assert image == tf.TensorSpec([4], tf.string)
    assert label == tf.TensorSpec([4], tf.int64)
    features, _ = dataset(photos, batch_size=4, columns=["image", "key", "label"]).element_spec
    assert list(features) == ["image", "key"]


def test_without_the_label_only_features_come(mixed: Path) -> None:
    assert dataset(mixed, batch_size=10, columns=["grid"]).element_spec == tf.TensorSpec([10, 2, 3], tf.float32)
    x, y = dataset(mixed, batch_size=10, columns=["grid"], label="raw").element_spec
    assert (x, y) == (tf.TensorSpec([10, 2, 3], tf.float32), tf.TensorSpec([10, 3], tf.float64))


@pytest.mark.parametrize("lacking", [0, 3], ids=["none", "some"])
def test_what_a_record_may_lack_is_a_flat_list_with_both_engines(tmp_path: Path, lacking: int, to_plain: Plain) -> None:
    schema = Schema.of(
        grid=Feature(dtype="float32", shape=(2, 3), required=False),
        raw=Feature(dtype="int16", shape=(2,), required=False),
        wave=Feature(dtype="int16", shape=(None, 2), encoding="raw", required=False),
    )
    values = {
        "grid": np.ones((2, 3), np.float32),
        "raw": np.arange(2, dtype=np.int16),
        "wave": np.ones((3, 2), np.int16),
    }
    with bushel.Writer(tmp_path / "a.tfrecord", schema=schema) as writer:
        for number in range(8):
            writer.write(values if number >= lacking else {})
    native, graph = (dataset(tmp_path / "a.tfrecord", batch_size=8, schema=schema, engine=engine) for engine in ENGINES)
    assert native.element_spec == graph.element_spec
    ours, theirs = to_plain(next(iter(native))), to_plain(next(iter(graph)))
    assert ours == theirs
    assert ours["raw"] == [[]] * lacking + [[0, 1]] * (8 - lacking)
    assert [len(row) for row in ours["wave"]] == [0] * lacking + [6] * (8 - lacking)


def test_packed_rows_come_with_all_labels_of_their_records(mixed: Path) -> None:
    made = dataset(mixed, batch_size=4, columns=["tokens", "label"], layout=[Pack("tokens", length=16)])
    assert made.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert made.element_spec[0]["tokens"].shape.as_list() == [None, 16]
    assert made.element_spec[1] == tf.RaggedTensorSpec([None, None], tf.int64, 1, tf.int64)
    batches = list(made)
    assert sum(int(label.values.shape[0]) for _, label in batches) == 50
    assert max(int(tf.reduce_max(x["tokens/segments"])) for x, _ in batches) > 1


@pytest.fixture
def damaged(floats: Path, tmp_path: Path) -> Path:
    """34 records of which the last cannot be read."""
    data = bytearray((floats / "train-00000-of-00003.tfrecord").read_bytes())
    data[-10] ^= 1
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(data)
    return path


def test_damage_is_left_out_or_replaced_with_no_weight(damaged: Path) -> None:
    skipped = dataset(damaged, batch_size=17, on_fault="skip")
    assert labels(skipped) == list(range(33))
    assert skipped.element_spec[0].shape.as_list() == [None, 4]
    x, _, weight = list(dataset(damaged, batch_size=17, on_fault="replace"))[1]
    assert x.shape.as_list() == [17, 4]
    assert weight.numpy().tolist() == [1.0] * 16 + [0.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_damage_is_named_or_refused(damaged: Path, engine: str) -> None:
    with pytest.raises(tf.errors.OpError) as caught:
        list(dataset(damaged, batch_size=8, engine=engine))
    if engine == "native":
        assert f"{damaged}: record 33 at byte" in str(caught.value)
