"""Eight devices on the CPU, as a host with eight accelerators has."""

import os
from pathlib import Path

import pytest

from tests.reading.conftest import write_numbered

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    return write_numbered(tmp_path / "data")
