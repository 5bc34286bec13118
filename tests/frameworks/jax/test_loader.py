"""Batches for JAX: one shape, all devices, no integer cut, and a state that Orbax keeps."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import bushel
import bushel.jax
from bushel import Order, Pad
from tests.reading.conftest import flip, write_numbered


def loader_of(path: Path, **options: Any) -> bushel.jax.Loader:
    options = {"batch_size": 8, "columns": ["number"], "order": Order(shuffle=True, seed=3), **options}
    return bushel.jax.loader(path, "train", **options)


def test_there_are_eight_devices() -> None:
    assert jax.device_count() == 8


def test_every_batch_has_one_shape_and_a_mask(numbered: Path) -> None:
    batches = list(loader_of(numbered))
    assert {number.shape for number, _ in batches} == {(8,)}
    assert [int(mask.sum()) for _, mask in batches] == [8] * 12 + [7]
    seen = [value for number, mask in batches for value in np.asarray(number)[np.asarray(mask)].tolist()]
    assert sorted(seen) == list(range(103))


def test_a_last_batch_that_is_dropped_needs_no_mask(numbered: Path) -> None:
    loader = loader_of(numbered, drop_last=True)
    assert len(loader) == 12
    assert [number.shape for number in loader] == [(8,)] * 12


def test_features_and_label_come_apart(numbered: Path) -> None:
    x, label, mask = next(iter(loader_of(numbered, columns=["x", "label"])))
    assert x.shape == (8, 8)
    assert (x.dtype, label.dtype, mask.dtype) == (np.float32, np.int32, bool)
    features, label, _ = next(iter(loader_of(numbered, columns=["x", "number", "label"])))
    assert set(features) == {"x", "number"}
    assert label.shape == (8,)


def test_rows_are_spread_over_all_devices(numbered: Path) -> None:
    for array in next(iter(loader_of(numbered, columns=["x", "label"], batch_size=16))):
        assert len(array.sharding.device_set) == 8
        assert {shard.data.shape[0] for shard in array.addressable_shards} == {2}


def test_a_sharding_lays_out_rows(numbered: Path) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    rows, columns = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec("data", "model"))
    x, label = next(iter(loader_of(numbered, columns=["x", "label"], sharding=rows, drop_last=True)))
    assert (x.sharding, label.sharding) == (rows, rows)
    by_name = {"x": columns, "label": rows}
    x, label = next(iter(loader_of(numbered, columns=["x", "label"], sharding=by_name, drop_last=True)))
    assert x.addressable_shards[0].data.shape == (2, 4)
    assert label.addressable_shards[0].data.shape == (2,)


def test_a_step_is_compiled_once_for_all_batches(numbered: Path) -> None:
    traced = []

    @jax.jit
    def step(x: Any, mask: Any) -> Any:
        traced.append(x.shape)
        return (x.sum(axis=1) * mask).sum()

    total = sum(float(step(x, mask)) for x, mask in loader_of(numbered, columns=["x"]))
    assert traced == [(8, 8)]
    assert total == sum(8 * number + 28 for number in range(103))


def test_a_batch_is_a_tree(numbered: Path) -> None:
    batch = next(bushel.batches(bushel.open(numbered)["train"], batch_size=4, columns=["x", "label"]))
    doubled = jax.tree.map(lambda column: 2 * column, batch)
    assert isinstance(doubled, bushel.Batch)
    assert doubled["label"].tolist() == [0, 2, 4, 6]
    assert isinstance(jax.device_put(batch)["x"], jax.Array)
    total = jax.jit(lambda tree: tree["x"].sum())(batch)
    assert float(total) == float(batch["x"].sum())


def test_integers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        for number in range(8):
            writer.write({"id": 2**31 + number})
    with pytest.raises(bushel.SchemaMismatch, match=f"{2**31} does not fit int32 - at id"):
        list(bushel.jax.loader(tmp_path / "train.tfrecord", batch_size=8))
    with pytest.raises(bushel.SchemaMismatch, match="does not fit int32"):
        bushel.jax.to_jax({"id": np.array([-(2**40)])})
    assert bushel.jax.to_jax({"id": np.array([2**31 - 1])})["id"].tolist() == [2**31 - 1]


def test_floats_that_lose_bits_are_reported() -> None:
    with pytest.warns(bushel.BushelWarning, match="precise: float64 becomes float32"):
        assert bushel.jax.to_jax({"precise": np.ones(2)})["precise"].dtype == np.float32


def test_what_is_no_array_says_how_to_make_it_one(numbered: Path) -> None:
    with pytest.raises(bushel.SchemaMismatch, match="the rows of this differ in length - at tokens") as caught:
        list(loader_of(numbered, columns=["tokens"]))
    assert "layout=[Pad('tokens')]" in str(caught.value)
    padded, _ = next(iter(loader_of(numbered, columns=["tokens"], layout=[Pad("tokens", length=8)])))
    assert padded["tokens"].shape == padded["tokens/mask"].shape == (8, 8)
    with pytest.raises(bushel.SchemaMismatch, match="JAX takes numbers, and this is text or bytes - at text"):
        list(loader_of(numbered, columns=["text"]))


@pytest.mark.parametrize("stop", [1, 6, 12])
def test_a_state_that_orbax_kept_continues_after_any_batch(numbered: Path, stop: int, tmp_path: Path) -> None:
    import orbax.checkpoint as ocp

    whole = [number.tolist() for number, _ in loader_of(numbered)]
    begun = loader_of(numbered)
    seen = []
    for number, _ in begun:
        seen.append(number.tolist())
        if len(seen) == stop:
            break
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", begun.state())
        checkpointer.wait_until_finished()
        state = checkpointer.restore(tmp_path / "state", loader_of(numbered).state())
    resumed = loader_of(numbered)
    resumed.restore(state)
    assert seen + [number.tolist() for number, _ in resumed] == whole


def test_each_loop_reads_the_next_epoch(numbered: Path) -> None:
    loader = loader_of(numbered)
    first, second = ([number.tolist() for number, _ in loader] for _ in range(2))
    assert first != second
    loader.set_epoch(0)
    assert [number.tolist() for number, _ in loader] == first


def test_a_state_of_another_dataset_is_refused(numbered: Path, tmp_path: Path) -> None:
    other = loader_of(write_numbered(tmp_path / "other", shards=3)).state()
    with pytest.raises(ValueError, match="state must be of the dataset that is read"):
        loader_of(numbered).restore(other)


def test_damage_is_replaced_and_masked(numbered: Path) -> None:
    flip(sorted(numbered.glob("*.tfrecord"))[0], at=40)
    number, mask = next(iter(loader_of(numbered, order=Order(), on_fault="replace")))
    assert number.tolist() == [1, 1, 2, 3, 4, 5, 6, 7]
    assert mask.tolist() == [False] + [True] * 7
    with pytest.raises(ValueError, match="on_fault must be one of raise, replace where every batch has one shape"):
        loader_of(numbered, on_fault="skip")


def test_settings_that_make_no_sense_are_refused(numbered: Path) -> None:
    with pytest.raises(ValueError, match="batch_size must be a multiple of the 1 processes, got 0"):
        loader_of(numbered, batch_size=0)
    with pytest.raises(ValueError, match="ahead must be at least 1, got 0"):
        loader_of(numbered, ahead=0)
    with pytest.raises(TypeError, match="without an end has no length"):
        len(loader_of(numbered, epochs=None))


def test_jax_is_asked_for_by_name_where_it_is_missing() -> None:
    code = "import sys; sys.modules['jax'] = None; import bushel.jax"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert 'ImportError: bushel.jax needs JAX: pip install "bushel[jax]"' in done.stderr


def test_a_batch_size_that_no_device_count_fits_is_refused_before_reading(numbered: Path) -> None:
    with pytest.raises(ValueError, match=r"batch_size must be a multiple of the 8 devices.*got 63"):
        bushel.jax.loader(numbered, "train", batch_size=63)
