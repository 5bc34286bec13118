"""Ray: builds and checks on a cluster, datasets for Ray Data, batches in the workers of Ray Train."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Loaded when first used: workers that train load nothing that builds.
_HOMES = {"batches": "bushel.ray.data", "dataset": "bushel.ray.data", "engine": "bushel.ray.engine"}

__all__ = ["batches", "dataset", "engine"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bushel.ray' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


if TYPE_CHECKING:
    from bushel.ray.data import batches as batches
    from bushel.ray.data import dataset as dataset
    from bushel.ray.engine import engine as engine
