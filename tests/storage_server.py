"""A real S3 endpoint on loopback: moto's server in a process of its own."""

import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

SECRET = "kQ7-this-is-the-secret-9fZ"
_SERVE = """
import sys, time
from moto.server import ThreadedMotoServer
ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False).start()
while True:
    time.sleep(3600)
"""


@contextmanager
def serving(port: int | None = None) -> Iterator[str]:
    """The address of a server that lives for as long as this."""
    port = port or free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nothing answers at port {port}")


def new_bucket(endpoint: str) -> str:
    """As s3://name."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return f"s3://{name}"


def environment(endpoint: str, folder: str) -> dict[str, str]:
    """What somebody sets who uses the endpoint."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_CONFIG_FILE": f"{folder}/no-config",
        "AWS_SHARED_CREDENTIALS_FILE": f"{folder}/no-credentials",
        "BUSHEL_CACHE": f"{folder}/cache",
        "XDG_CACHE_HOME": f"{folder}/home-cache",
    }


def put_many(folder: Any, count: int) -> None:
    """Small objects, numbered."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: (folder / f"{number:05d}").write_bytes(b"x" * (number % 7)), range(count)))


def forget_clients() -> None:
    """Clients and the cache are kept for a process; the environment of a test is another process's."""
    from bushel.storage import cache, stores

    stores._store.cache_clear()
    cache.the_cache.cache_clear()
