"""Tests of object stores talk to a real endpoint."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_server import environment, forget_clients, new_bucket, serving


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture
def store(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of somebody who uses the endpoint."""
    forget_clients()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in environment(endpoint, str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    return endpoint


@pytest.fixture
def bucket(store: str) -> str:
    """A new bucket, as s3://name."""
    return new_bucket(store)
