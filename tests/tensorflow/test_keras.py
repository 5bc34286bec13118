"""Keras: models fitted to datasets, on TensorFlow and without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import CorruptRecord, MissingName, Order, Pad, SchemaMismatch
from bushel import transforms as t
from bushel.tensorflow import dataset, py_dataset

pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 records whose label is the sum of the first four of eight numbers."""
    path = tmp_path_factory.mktemp("sums") / "train-00000-of-00001.tfrecord"
    x = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    with bushel.Writer(path) as writer:
        writer.write_batch({"x": x, "label": x[:, :4].sum(axis=1)})
    return path


def fitted(made: Any, **arguments: Any) -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model.fit(made, epochs=4, verbose=0, shuffle=False, **arguments)


@pytest.mark.parametrize("engine", ["native", "graph"])
def test_a_model_learns_from_either_engine_and_repeats(sums: Path, engine: str) -> None:
    order = Order(shuffle=True, seed=0)
    keras.utils.set_random_seed(0)  # TensorFlow's own shuffle takes it into account, for the first dataset too
    runs = [
        fitted(
            dataset(sums, "train", batch_size=64, order=order, engine=engine),
            validation_data=dataset(sums, "train", batch_size=100, engine=engine),
        )
        for _ in range(2)
    ]
    losses = runs[0].history["loss"]
    assert runs[0].history["val_loss"][-1] < losses[0] / 20
    assert losses == runs[1].history["loss"]


def test_numpy_batches_give_the_losses_of_the_dataset(sums: Path) -> None:
    order = Order(shuffle=True, seed=0)
    one = fitted(dataset(sums, batch_size=64, order=order)).history["loss"]
    other = fitted(py_dataset(sums, batch_size=64, order=order)).history["loss"]
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_any_batch_of_any_epoch_is_made_on_its_own(floats: Path) -> None:
    order = Order(shuffle=True, seed=4)
    made = py_dataset(floats, batch_size=16, order=order)
    feed = bushel.batches(bushel.open(floats)["train"], batch_size=16, order=order, epochs=2)
    expected = [batch["label"].tolist() for batch in feed]
    assert len(made) == 7
    numbers = [6, 0, 3]
    assert [made[number][1].tolist() for number in numbers] == [expected[number] for number in numbers]
    made.on_epoch_begin()
    made.on_epoch_end()
    assert [made[number][1].tolist() for number in numbers] == [expected[7 + number] for number in numbers]


def test_rows_that_fill_up_weigh_nothing(floats: Path) -> None:
    made = py_dataset(floats, batch_size=16, order=Order(rank=2, world=3, uneven="pad"))
    weights = [made[number][2] for number in range(len(made))]
    assert sum(float(weight.sum()) for weight in weights) < sum(len(weight) for weight in weights)


def test_images_come_decoded(photos: Path) -> None:
    steps = [t.decode_image("image"), t.resize("image", 16, 16, dtype="float32")]
    image, label = py_dataset(photos, batch_size=8, transforms=steps)[1]
    assert image.shape == (8, 16, 16, 3)
    assert label.tolist() == [number % 3 for number in range(8, 16)]


def test_what_has_no_one_length_is_refused_with_what_to_do(mixed: Path) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        py_dataset(mixed, batch_size=8, columns=["tokens", "label"])
    assert str(caught.value).splitlines() == [
        "Keras takes arrays, and this is ragged - at tokens",
        "  Give it one length: layout=[Pad('tokens')]; or leave it out: columns=[...]",
    ]
    x, _ = py_dataset(mixed, batch_size=8, columns=["tokens", "label"], layout=[Pad("tokens", length=5)])[0]
    assert x["tokens"].shape == x["tokens/mask"].shape == (8, 5)


def test_names_are_checked_and_damage_is_raised(floats: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingName, match="did you mean 'label'"):
        py_dataset(floats, batch_size=8, columns=["labl"])
    data = bytearray((floats / "train-00000-of-00003.tfrecord").read_bytes())
    data[-10] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(data)
    made = py_dataset(tmp_path / "damaged.tfrecord", batch_size=8)
    with pytest.raises(CorruptRecord, match="record 33 at byte"):
        made[len(made) - 1]


def test_an_undecoded_image_is_refused_by_name_before_a_model_sees_it(photos: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"an undecoded image cannot be fed to a model"):
        py_dataset(photos, batch_size=8, columns=["image", "label"])
