"""Helpers of torch that walk nested values take a batch for a dict."""

from pathlib import Path

import torch
from torch.utils import _pytree as pytree

import bushel


def batch_of(path: Path) -> bushel.Batch:
    return next(bushel.batches(bushel.open(path)["train"], batch_size=3, columns=["x", "label"]))


def test_a_tree_of_torch_holds_the_columns(numbered: Path) -> None:
    batch = batch_of(numbered)
    leaves, spec = pytree.tree_flatten(batch)
    assert [leaf.shape for leaf in leaves] == [(3, 8), (3,)]
    assert isinstance(pytree.tree_unflatten(leaves, spec), bushel.Batch)
    moved = pytree.tree_map(torch.from_numpy, batch)
    assert isinstance(moved, bushel.Batch)
    assert moved["label"].tolist() == [0, 1, 2]


def test_lightning_moves_a_batch(numbered: Path) -> None:
    from lightning.pytorch.utilities import move_data_to_device

    tensors = bushel.Batch(bushel.torch.to_torch(batch_of(numbered)))
    moved = move_data_to_device(tensors, torch.device("cpu"))
    assert isinstance(moved, bushel.Batch)
    assert moved["x"].shape == (3, 8)


def test_accelerate_moves_a_batch(numbered: Path) -> None:
    from accelerate.utils import find_batch_size, send_to_device

    moved = send_to_device(bushel.Batch(bushel.torch.to_torch(batch_of(numbered))), "cpu")
    assert isinstance(moved, bushel.Batch)
    assert find_batch_size(moved) == 3
