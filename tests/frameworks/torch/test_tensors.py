"""Columns as tensors: without a copy where torch allows, and never with other values."""

from pathlib import Path

import numpy as np
import pytest
import torch

import bushel
from bushel import Feature, Ragged, Schema
from bushel.data.columns import BytesColumn, SparseColumn
from bushel.torch import collate, to_torch


def test_dense_columns_share_their_memory(numbered: Path) -> None:
    batch = next(bushel.batches(bushel.open(numbered)["train"], batch_size=5))
    tensors = to_torch(batch)
    assert type(tensors) is dict
    assert tensors["x"].data_ptr() == batch["x"].ctypes.data
    assert tensors["x"].dtype == torch.float32
    assert tensors["number"].tolist() == [0, 1, 2, 3, 4]


def test_ragged_columns_are_jagged_and_bytes_are_lists(numbered: Path) -> None:
    tensors = to_torch(next(bushel.batches(bushel.open(numbered)["train"], batch_size=3)))
    assert tensors["tokens"].layout == torch.jagged
    assert [row.tolist() for row in tensors["tokens"].unbind()] == [[0], [0, 1], [0, 1, 2]]
    assert tensors["text"] == [b"record 0", b"record 1", b"record 2"]


def test_lists_of_lists_are_lists_of_tensors() -> None:
    steps = Ragged(np.arange(6), np.array([0, 2, 3, 6]))
    names = Ragged(BytesColumn.of([b"a", b"b", b"c"]), np.array([0, 2, 3]))
    tensors = to_torch({"clip": Ragged(steps, np.array([0, 1, 3])), "names": names})
    assert [[step.tolist() for step in row] for row in tensors["clip"]] == [[[0, 1]], [[2], [3, 4, 5]]]
    assert tensors["names"] == [[b"a", b"b"], [b"c"]]


def test_sparse_columns_are_csr() -> None:
    column = SparseColumn(np.array([1, 4, 0]), np.array([1.0, 2.0, 3.0], np.float32), np.array([0, 2, 2, 3]), 5)
    found = to_torch({"x": column})["x"]
    assert found.layout == torch.sparse_csr
    assert found.to_dense().tolist() == column.to_dense().tolist()


@pytest.mark.parametrize(
    ("narrow", "wide"), [("uint16", torch.int32), ("uint32", torch.int64), ("uint64", torch.int64)]
)
def test_unsigned_integers_are_widened_and_that_is_reported(narrow: str, wide: torch.dtype) -> None:
    top = min(np.iinfo(narrow).max, 2**63 - 1)
    with pytest.warns(bushel.BushelWarning, match=f"depth_{narrow}: {narrow} becomes int"):
        found = to_torch({f"depth_{narrow}": np.array([0, top], narrow)})[f"depth_{narrow}"]
    assert found.dtype == wide
    assert found.tolist() == [0, top]


def test_an_unsigned_integer_that_fits_no_type_of_torch_is_refused() -> None:
    with pytest.raises(bushel.SchemaMismatch, match=f"{2**63} does not fit int64"):
        to_torch({"hash": np.array([2**63], np.uint64)})


def test_memory_that_must_not_be_written_is_copied() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    to_torch({"x": array})["x"][0] = 7
    assert array[0] == 0


def test_images_are_channels_last_without_a_copy() -> None:
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    found = to_torch({"image": pixels}, memory_format=torch.channels_last)["image"]
    assert found.shape == (2, 3, 4, 5)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert found.data_ptr() == pixels.ctypes.data
    plain = to_torch({"image": pixels}, memory_format=torch.contiguous_format)["image"]
    assert plain.is_contiguous()
    assert plain[1, 2, 3, 4] == pixels[1, 3, 4, 2]


def test_floats_become_the_dtype_and_integers_stay() -> None:
    found = to_torch({"x": np.ones(2, np.float32), "label": np.arange(2)}, dtype=torch.bfloat16)
    assert (found["x"].dtype, found["label"].dtype) == (torch.bfloat16, torch.int64)
    with pytest.raises(ValueError, match="dtype must be a floating point type of torch, got torch.int32"):
        to_torch({}, dtype=torch.int32)
    with pytest.raises(ValueError, match="memory_format must be None, torch.channels_last or"):
        to_torch({}, memory_format=torch.channels_last_3d)


def test_samples_are_collated_whatever_they_hold() -> None:
    samples = [({"x": np.ones(3), "tokens": np.arange(n), "text": "a"}, n) for n in (1, 2)]
    features, label = collate(samples)
    assert features["x"].shape == (2, 3)
    assert [row.tolist() for row in features["tokens"].unbind()] == [[0], [0, 1]]
    assert features["text"] == ["a", "a"]
    assert label.tolist() == [1, 2]


def test_batches_of_every_type_a_schema_knows_keep_their_values(tmp_path: Path) -> None:
    dtypes = ("int8", "int16", "int32", "uint8", "uint16", "float16", "float64", "bool")
    features = {name: Feature(dtype=name, shape=(2,), encoding="raw") for name in dtypes}
    samples = [{name: np.array([row, 1]).astype(name) for name in dtypes} for row in range(3)]
    with bushel.Writer(tmp_path / "all.tfrecord", schema=Schema(features=features)) as writer:
        for sample in samples:
            writer.write(sample)
    tensors = to_torch(
        next(bushel.batches(bushel.open(tmp_path / "all.tfrecord", schema=Schema(features=features)), batch_size=3))
    )
    for name in dtypes:
        assert tensors[name].tolist() == [sample[name].tolist() for sample in samples], name
