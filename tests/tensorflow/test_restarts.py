"""A training that is started again goes on in the data where its model stands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import BushelError, FileProblem, Order
from bushel.tensorflow import dataset, py_dataset

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

STEPS = 7  # of an epoch: 100 records in batches of 16
Made = Callable[..., Any]


class Watched(keras.Model):  # type: ignore[misc, name-defined]
    """A model that notes the label of every row that it is trained on, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen: list[list[int]] = []
        self.build((None, 4))
        self.compile("sgd", "mse", run_eagerly=True)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        self.seen.append(data[1].numpy().tolist())
        return super().train_step(data)


class Killed(Exception):
    pass


class KillAfter(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if not self.left:
            raise Killed


@pytest.fixture(params=[dataset, py_dataset], ids=["tf.data", "PyDataset"])
def made(request: pytest.FixtureRequest, floats: Path) -> Made:
    def make(**changed: Any) -> Any:
        return request.param(floats, **{"batch_size": 16, "order": Order(shuffle=True, seed=5), **changed})

    return make


def fit(data: Any, *callbacks: Any, model: Any = None, **settings: Any) -> list[list[int]]:
    model = model or Watched()
    before = len(model.seen)
    model.fit(data, callbacks=list(callbacks), verbose=0, shuffle=False, **settings)
    return list(model.seen[before:])


def kept(data: Any, folder: Path) -> Any:
    return bushel.keras.keep_place(data, folder / "place.json")


@pytest.mark.parametrize(("save_freq", "saved"), [(5, 10), ("epoch", STEPS)])
def test_a_killed_training_goes_on_with_the_next_batch(made: Made, tmp_path: Path, save_freq: Any, saved: int) -> None:
    whole = fit(made(), epochs=5)
    folder = tmp_path / "backup"
    for _ in range(2):  # killed, started again and killed, and started again
        data, model = made(), Watched()
        backup = keras.callbacks.BackupAndRestore(folder, save_freq=save_freq)
        with pytest.raises(Killed):
            fit(data, kept(data, folder), backup, KillAfter(12), model=model, epochs=3)
        whole = whole[saved:] if model.seen == whole[:12] else []
    data = made()
    backup = keras.callbacks.BackupAndRestore(folder, save_freq=save_freq)
    seen = fit(data, backup, kept(data, folder), epochs=3)
    assert len(seen) >= STEPS
    assert seen == whole[: len(seen)]
    assert not folder.exists()  # Keras removes the backup of a training that came to its end


def test_an_epoch_to_begin_with_is_enough(made: Made, tmp_path: Path) -> None:
    whole = fit(made(), epochs=4)
    data = made()
    assert fit(data, kept(data, tmp_path), epochs=4, initial_epoch=2) == whole[2 * STEPS :]
    data = made()  # weights alone were loaded, and the file is there
    assert fit(data, kept(data, tmp_path), epochs=4, initial_epoch=3) == whole[3 * STEPS :]


def test_one_fit_after_another_goes_on(made: Made, tmp_path: Path) -> None:
    whole = fit(made(), epochs=3)
    data, model = made(), Watched()
    seen = fit(data, kept(data, tmp_path), model=model, epochs=1)
    again = made()
    seen += fit(again, kept(again, tmp_path), model=model, epochs=3, initial_epoch=1)
    assert seen == whole


def test_a_model_that_was_trained_before_begins_with_the_first_batch(made: Made, tmp_path: Path) -> None:
    first = fit(made(), epochs=1)
    model = Watched()
    fit(made(), model=model, epochs=2)
    data = made()
    assert fit(data, kept(data, tmp_path), model=model, epochs=1) == first
    new = made()
    assert fit(new, kept(new, tmp_path), epochs=1) == first  # the file of the older run does not matter


def test_a_place_of_another_run_is_refused(made: Made, tmp_path: Path) -> None:
    data, model = made(), Watched()
    fit(data, kept(data, tmp_path), model=model, epochs=1)
    other = made(batch_size=10)
    with pytest.raises(FileProblem, match="of a run with batch_size 16, and this one has 10"):
        fit(other, kept(other, tmp_path), model=model, epochs=2, initial_epoch=1)
    (tmp_path / "place.json").write_text("{")
    with pytest.raises(FileProblem, match="this is no place in the data"):
        fit(data, kept(data, tmp_path), model=model, epochs=2, initial_epoch=1)


def test_only_what_bushel_can_move_is_taken(floats: Path, tmp_path: Path) -> None:
    for data in (dataset(floats, batch_size=16, engine="graph"), [1, 2]):
        with pytest.raises(ValueError, match=r"data must be what bushel.tensorflow.dataset \(with engine=\"native\"\)"):
            bushel.keras.keep_place(data, tmp_path / "place.json")


def test_an_iterator_is_saved_by_the_graph_and_says_what_to_use_otherwise(floats: Path, tmp_path: Path) -> None:
    iterator = iter(dataset(floats, batch_size=16))
    next(iterator)
    with pytest.raises(BushelError, match=r"cannot be saved: save the number of batches.*skip=NUMBER"):
        tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "native"))
    graph = iter(dataset(floats, batch_size=16, engine="graph"))
    next(graph)
    saved = tf.train.Checkpoint(iterator=graph).save(str(tmp_path / "graph"))
    again = iter(dataset(floats, batch_size=16, engine="graph"))
    tf.train.Checkpoint(iterator=again).restore(saved)
    np.testing.assert_array_equal(next(again)[1], np.arange(16, 32))
