"""Small datasets for torch, and processes that read them together."""

from pathlib import Path

import numpy as np
import pytest

import bushel
from tests.reading.conftest import write_numbered


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    return write_numbered(tmp_path / "data")


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Four features that say which of two classes a record is of: what a model learns in a few steps."""
    random = np.random.default_rng(0)
    x = random.normal(size=(256, 4)).astype(np.float32)
    bushel.build({"x": x, "label": (x[:, 0] > 0).astype(np.int64)}, tmp_path / "classes")
    return tmp_path / "classes"
