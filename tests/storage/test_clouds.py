"""Google's and Azure's stores: the same verbs and the same bytes as everywhere else."""

import base64
import hmac
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cloud_stores import Azure, CloudStore, Google, Refused, Serving, cloud
from storage_server import forget_clients, free_port
from test_building_objects import KILLED, columns, digests

import bushel
from bushel.errors import FileProblem
from bushel.storage import as_path, stores
from bushel.storage import whole_folders as lock
from bushel.storage.objects import ObjectPath

ENDPOINTS = {"az": "AZURE_STORAGE_ENDPOINT", "gs": "STORAGE_EMULATOR_HOST"}
SCHEMES: dict[str, type[CloudStore]] = {"az": Azure, "gs": Google}


def environment(scheme: str, address: str, folder: Path) -> dict[str, str]:
    """What somebody sets who uses a private endpoint."""
    shared = {"BUSHEL_CACHE": f"{folder}/cache", "XDG_CACHE_HOME": f"{folder}/home-cache"}
    if scheme == "gs":
        return {"STORAGE_EMULATOR_HOST": address.removeprefix("http://"), **shared}
    key = "a2V5LW9mLWEtdGVzdA=="
    return {
        "AZURE_STORAGE_ENDPOINT": address,
        "AZURE_STORAGE_ACCOUNT_NAME": "someone",
        "AZURE_STORAGE_ACCOUNT_KEY": key,
        **shared,
    }


@pytest.fixture(params=["az", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def serving(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    forget_clients()
    for name in [name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_", "STORAGE_EMULATOR"))]:
        monkeypatch.delenv(name)
    with cloud(SCHEMES[scheme]) as running:
        for name, value in environment(scheme, running.address, tmp_path).items():
            monkeypatch.setenv(name, value)
        yield running
    forget_clients()


def test_what_is_listed_can_be_read(serving: Serving, scheme: str) -> None:
    as_path(f"{scheme}://box/a/one.txt").write_text("first")
    (found,) = as_path(f"{scheme}://box/a").iterdir()
    with found.open("rb") as file:
        assert file.read() == b"first"
    assert found.status()[:2] == as_path(f"{scheme}://box/a/one.txt").status()[:2]


def test_a_replaced_object_is_still_noticed(serving: Serving, scheme: str) -> None:
    path = as_path(f"{scheme}://box/a/one.txt")
    path.write_text("first")
    (found,) = as_path(f"{scheme}://box/a").iterdir()
    path.write_text("other")
    with found.open("rb") as file, pytest.raises(FileProblem, match="has changed while it was read"):
        file.read()


def test_a_build_has_the_same_bytes_and_can_be_read_and_replaced(serving: Serving, scheme: str, tmp_path: Path) -> None:
    there, here = f"{scheme}://box/data", tmp_path / "here"
    for out in (there, here):
        bushel.build(columns(300), out, shards=3)
    assert digests(there) == digests(here)
    feed = bushel.batches(bushel.open(there)["train"], batch_size=50, order=bushel.Order(shuffle=True, seed=1))
    assert sorted(np.concatenate([batch["x"] for batch in feed]).tolist()) == sorted(columns(300)["x"].tolist())
    assert bushel.info(there).records == 300
    for out in (there, here):
        bushel.build(columns(120), out, shards=2, run=bushel.Run(overwrite=True))
    assert digests(there) == digests(here)


def test_samples_are_added(serving: Serving, scheme: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    for count in (100, 150):
        rows.write_text("id,x\n" + "".join(f"a{i},{i}\n" for i in range(count)))
        bushel.build(bushel.sources.table(rows, key="id"), f"{scheme}://box/data", run=bushel.Run(append=count > 100))
    assert bushel.info(f"{scheme}://box/data").records == 150


def test_a_claim_is_renewed_and_that_of_a_killed_build_taken_over(
    serving: Serving, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "BEAT", 0.05)
    path, out = as_path(f"{scheme}://box/data/_journal/claim.json"), as_path(f"{scheme}://box/data")
    assert isinstance(path, ObjectPath)
    with lock.hold(path, out) as holding:
        wait_until(lambda: lock._read(path)[0].beat >= 3)  # type: ignore[index]
        holding.check()
        with pytest.raises(FileProblem, match="another build is writing here right now"), lock.hold(path, out):
            pass
    assert not path.fresh().exists()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = lock.Claim("other", lock.Claim.own().host, lock.boot_of_machine(), int(gone.stdout))
    path.write_bytes(msgspec.json.encode(dead))
    with lock.hold(path, out) as holding:
        holding.check()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_build_is_continued(serving: Serving, scheme: str, tmp_path: Path) -> None:
    there = f"{scheme}://box/there"
    done = subprocess.run([sys.executable, "-c", KILLED, there, "4"], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert bushel.build(columns(), there, shard_size="50K").resumed == 4
    bushel.build(columns(), tmp_path / "here", shard_size="50K")
    assert digests(there) == digests(tmp_path / "here")
    assert not any(name.startswith("there/_journal") for name in serving.buckets["box"])


def test_a_large_upload_in_parts_is_whole(serving: Serving, scheme: str, tmp_path: Path) -> None:
    data = os.urandom(40 << 20)
    (tmp_path / "large").write_bytes(data)
    path = as_path(f"{scheme}://box/large")
    assert isinstance(path, ObjectPath)
    assert path.put(tmp_path / "large").etag == path.status().etag
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("given", "kept"), [("0x8D", '"0x8D"'), ('"0x8D"', '"0x8D"'), ('W/"0x8D"', ""), (None, ""), ("", "")]
)
def test_entity_tags_are_kept_with_quotes_and_weak_ones_are_not_kept(given: str | None, kept: str) -> None:
    assert stores._quoted(given) == kept


def test_an_error_has_the_stores_own_code_and_message(serving: Serving, scheme: str) -> None:
    word = {"az": "container", "gs": "bucket"}[scheme]
    with pytest.raises(FileProblem) as caught:
        list(as_path(f"{scheme}://other/a").iterdir())
    assert str(caught.value).splitlines() == [
        f"{scheme}://other/a: there is no {word} 'other'",
        f"  Is its name right; {ENDPOINTS[scheme]} is {serving.address}?",
    ]
    serving.refuses = Refused(400, "InvalidName", "The name contains\ncharacters of the wrong kind.")
    for verb in (lambda path: path.exists(), lambda path: path.write_text("x"), lambda path: list(path.iterdir())):
        with pytest.raises(FileProblem) as caught:
            verb(as_path(f"{scheme}://B_ox/a"))
        assert str(caught.value) == f"{scheme}://B_ox/a: the store answered 400 (InvalidName: The name contains)"


_AZURITE = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--blobPort"]
_ACCOUNT = "devstoreaccount1"  # Azurite's own, whose key everybody knows
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def azurite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A container of Azurite, Microsoft's emulator, as az://name. npm fetches it if it is not installed."""
    command = (
        ["azurite-blob"] if shutil.which("azurite-blob") else ["npx", "--yes", "--package=azurite", "azurite-blob"]
    )
    if shutil.which(command[0]) is None:
        pytest.skip("Azurite needs npm")
    port = free_port()
    with subprocess.Popen([*command, *_AZURITE, str(port)], cwd=tmp_path, start_new_session=True) as running:
        try:
            deadline = time.monotonic() + 300
            while not answers(port):
                if running.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("npm could not fetch Azurite")
                time.sleep(0.5)
            make_container(port, "box")
            monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
            monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("BUSHEL_CACHE", str(tmp_path / "cache"))
            forget_clients()
            yield "az://box"
        finally:
            forget_clients()
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def make_container(port: int, name: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "PUT" + "\n" * 12 + "".join(f"{header}:{value}\n" for header, value in headers.items())
    signed += f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(_KEY), signed.encode(), "sha256")).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
    connection.request("PUT", f"/{_ACCOUNT}/{name}?restype=container", headers=headers)
    assert connection.getresponse().status == 201
    connection.close()


@pytest.mark.slow
def test_azurite_builds_reads_and_adds_what_a_disk_does(azurite: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    for out in (f"{azurite}/data", str(tmp_path / "here")):
        for count in (500, 900):
            rows.write_text("id,x\n" + "".join(f"a{i},{i}\n" for i in range(count)))
            table = bushel.sources.table(rows, key="id")
            bushel.build(table, out, split="80/20", run=bushel.Run(workers=1, append=count > 500))
    assert digests(as_path(f"{azurite}/data")) == digests(tmp_path / "here")
    there, here = (bushel.open(out)["train"] for out in (f"{azurite}/data", str(tmp_path / "here")))
    feeds = [bushel.batches(split, batch_size=32, order=bushel.Order(shuffle=True, seed=1)) for split in (there, here)]
    for one, other in zip(*feeds, strict=True):
        assert one["x"].tolist() == other["x"].tolist()
    assert not list(bushel.check(f"{azurite}/data"))
    with pytest.raises(FileProblem, match="there is no container 'nobox'"):
        bushel.open("az://nobox/data")
