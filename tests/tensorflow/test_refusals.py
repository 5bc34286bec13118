"""What cannot be done is refused when the pipeline is made, in words that say what can."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import MissingName, Order, Pack, Pad, SchemaMismatch, Sparse, Workers
from bushel import transforms as t
from bushel.tensorflow import dataset

pytest.importorskip("tensorflow")


@pytest.mark.parametrize("engine", ["native", "graph"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["labl"]}, "no feature 'labl'; did you mean 'label'?"),
        ({"label": "lable"}, "no feature 'lable'; did you mean 'label'?"),
        ({"split": "tran"}, "no split 'tran'; did you mean 'train'?"),
        ({"layout": [Pad("xx")]}, "layout: no column 'xx'"),
        ({"transforms": [t.normalise("xs")]}, "transform: no feature 'xs'"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(
    floats: Path, engine: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(MissingName) as caught:
        dataset(floats, **{"split": "train", "batch_size": 8, "engine": engine, **arguments})
    assert message in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"skip": 1}, "skip"),
        ({"on_fault": "skip"}, "on_fault"),
        ({"workers": Workers(threads=1)}, "workers"),
        ({"order": Order(balance="label")}, "order.balance"),
        ({"order": Order(weights=np.ones(100))}, "order.weights"),
        ({"order": Order(shuffle=True, block=4)}, "order.block"),
        ({"layout": [Pack("x", length=8)]}, "a layout that packs"),
    ],
)
def test_what_only_the_native_engine_can_do_is_refused_by_the_graph(
    floats: Path, arguments: dict[str, Any], what: str
) -> None:
    with pytest.raises(ValueError, match="TensorFlow's own ops cannot do it") as caught:
        dataset(floats, batch_size=8, engine="graph", **arguments)
    assert str(caught.value) == f'engine must be "native" for {what}: TensorFlow\'s own ops cannot do it'


def test_selections_and_mixtures_are_refused_by_the_graph(floats: Path) -> None:
    train = bushel.open(floats)["train"]
    for split, what in ((train.where("label", [1, 2]), "selection"), (bushel.mix([train, train]), "mixture")):
        with pytest.raises(ValueError, match=f'engine must be "native" for a {what}'):
            dataset(split, batch_size=2, engine="graph")


def test_joined_features_are_refused_by_the_graph(floats: Path) -> None:
    train = bushel.open(floats)["train"]
    joined = bushel.join(train, {"label": np.arange(100), "double": np.arange(100) * 2}, on="label")
    with pytest.raises(ValueError, match='engine must be "native" for joined features'):
        dataset(joined, batch_size=2, engine="graph")
    first = next(iter(dataset(joined, batch_size=2)))
    np.testing.assert_array_equal(first[0]["double"], first[1] * 2)


def test_wrapping_round_is_refused_by_the_graph(floats: Path) -> None:
    order = Order(world=3, uneven="wrap")
    with pytest.raises(ValueError, match='engine must be "native" for uneven="wrap"'):
        dataset(floats, batch_size=16, order=order, engine="graph")


@pytest.mark.parametrize(
    ("transform", "name"),
    [(t.rotate("image"), "Rotate"), (t.mixup("image", "label", classes=3), "Mixup")],
)
def test_a_transform_without_tensorflow_ops_is_refused_by_name(photos: Path, transform: Any, name: str) -> None:
    steps = [t.decode_image("image"), t.resize("image", 8, 8), transform]
    with pytest.raises(ValueError, match=f'engine must be "native" for {name}'):
        dataset(photos, batch_size=4, transforms=steps, engine="graph")


def test_images_of_different_sizes_are_refused_before_the_first_batch(photos: Path) -> None:
    for engine in ("native", "graph"):
        with pytest.raises(SchemaMismatch, match="rows may differ in their first size only"):
            dataset(photos, batch_size=4, transforms=[t.decode_image("image")], engine=engine)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"engine": "fast"}, "engine must be one of native, graph; got 'fast'"),
        ({"skip": -1}, "skip must be at least 0, got -1"),
    ],
)
def test_arguments_are_checked(floats: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dataset(floats, **{"batch_size": 8, **arguments})
    assert str(caught.value) == message


def test_weights_without_a_label_are_refused(floats: Path) -> None:
    with pytest.raises(ValueError, match="label must be given where rows may fill up a batch"):
        dataset(floats, batch_size=16, columns=["x"], order=Order(world=3, uneven="pad"))


def test_a_dataset_of_several_splits_needs_a_name(tmp_path: Path) -> None:
    for name in ("train", "val"):
        with bushel.Writer(tmp_path / f"{name}-00000-of-00001.tfrecord") as writer:
            writer.write({"x": 1.0})
    with pytest.raises(ValueError, match="split must be one of train, val; got None"):
        dataset(tmp_path, batch_size=1)


def test_sparse_columns_out_of_range_are_refused(sparse: Path) -> None:
    with pytest.raises(SchemaMismatch, match="indices must be at least 0 and below 5"):
        dataset(sparse, batch_size=8, layout=[Sparse("tfidf", 5)])
