"""A real S3 endpoint on loopback: moto's server in a process of its own, for as long as the tests run."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

SECRET = "kQ7-this-is-the-secret-9fZ"
_SERVE = """
import sys, time
from moto.server import ThreadedMotoServer
ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False).start()
while True:
    time.sleep(3600)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nothing answers at port {port}")


@pytest.fixture
def store(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of somebody who uses the endpoint."""
    forget_clients()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("BUSHEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))
    return endpoint


@pytest.fixture
def bucket(store: str) -> str:
    """A new bucket, as s3://name."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{store}/{name}", method="PUT")).close()
    return f"s3://{name}"


def forget_clients() -> None:
    """Clients and the cache are kept for a process; the environment of a test is another process's."""
    from bushel.storage import cache, stores

    stores._store.cache_clear()
    cache.the_cache.cache_clear()
