"""Datasets for torch: a loader of tensors on any device, and a map-style dataset. Needs torch.

import bushel.torch

for image, label in bushel.torch.loader("data", "train", batch_size=64, device="cuda"):
    ...
"""

from __future__ import annotations

from importlib.util import find_spec

from bushel.errors import missing_package

if find_spec("torch") is None:
    raise missing_package("torch", extra="torch", purpose="bushel.torch")

from bushel.torch.loading import Loader, Records, dataset, loader
from bushel.torch.tensors import collate, to_torch

__all__ = ["Loader", "Records", "collate", "dataset", "loader", "to_torch"]
