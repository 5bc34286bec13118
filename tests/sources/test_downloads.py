"""A table of http(s):// addresses: images are downloaded as part of a build, and what fails is refused by row."""

import contextlib
import io
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import bushel
from bushel import sources
from bushel.storage import downloads
from bushel.storage.downloads import Downloads, NotDownloaded


def png(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (6, 6), shade).save(out, "PNG")
    return out.getvalue()


class Web(ThreadingHTTPServer):
    """A small web: /N.png is an image, other paths are what people meet in lists of addresses."""

    asked: Counter[str]

    @property
    def at(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        times = self.server.asked[self.path]
        if self.path.startswith("/slow"):
            time.sleep(2)
        elif self.path.startswith("/busy") and times < 3:
            self.send_error(503)
            return
        elif self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", "/7.png")
            self.end_headers()
            return
        elif self.path.startswith("/loop"):
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
            return
        elif self.path.startswith("/file"):
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        elif self.path.startswith("/gone"):
            self.send_error(404)
            return
        data = b"<html>no image</html>" if self.path.startswith("/page") else png(times)
        if self.path.startswith("/large"):
            data = bytes(1 << 20)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) + 10 * self.path.startswith("/cut")))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked may be gone
            for byte in data if self.path.startswith("/drip") else ():
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web(("127.0.0.1", 0), Handler)
    server.asked = Counter()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_WAIT", 0.01)


def write_table(path: Path, urls: list[str]) -> Path:
    path.write_text("\n".join(["url,label", *(f"{url},{'ab'[n % 2]}" for n, url in enumerate(urls))]))
    return path


def test_images_are_downloaded_and_what_fails_is_refused_with_the_reason(web: Web, tmp_path: Path) -> None:
    paths = [*(f"/{n}.png" for n in range(20)), "/busy.png", "/moved", "/gone.png", "/page", "/file", "/loop"]
    table = write_table(tmp_path / "urls.csv", [web.at + path for path in paths])
    source = sources.table(table, image_column="url", rename={"url": "image"}, private=True)
    built = bushel.build(source, tmp_path / "data", run=bushel.Run(max_bad=10, workers=1))
    assert (built.records, built.refused) == (22, 4)
    reasons = (tmp_path / "data" / "_quarantine.jsonl").read_text()
    for words in ("/gone.png: 404 not found", "/file: ", "/loop: "):
        assert words in reasons
    assert {one["image/height"] for one in (bushel.open(tmp_path / "data")["train"][n] for n in range(22))} == {6}


def test_private_addresses_are_refused_unless_allowed(web: Web, tmp_path: Path) -> None:
    for host in (
        web.at,
        f"http://localhost:{web.server_port}",
        "http://10.0.0.1",
        "http://[::1]:80",
        "http://169.254.169.254",
    ):
        with pytest.raises(NotDownloaded, match="is a private address, which the option private allows"):
            Downloads().fetch(f"{host}/1.png")
    assert not web.asked
    source = sources.table(write_table(tmp_path / "urls.csv", [f"{web.at}/1.png"]), image_column="url")
    [block] = source.read(0, None)
    assert [one.reason for one in block.refused] == [
        f"{web.at}/1.png: 127.0.0.1 is a private address, which the option private allows"
    ]


def test_limits_of_size_time_and_tries_are_kept(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_SLOWEST", 1)
    with pytest.raises(NotDownloaded, match=r"it has more than 100\.0 KiB"):
        Downloads(private=True, max_bytes=100 << 10).fetch(f"{web.at}/large")
    with pytest.raises(NotDownloaded, match=r"no answer in time \(2 tries\)"):
        Downloads(private=True, timeout=0.2, tries=2).fetch(f"{web.at}/slow")
    with pytest.raises(NotDownloaded, match=r"the connection ended early \(3 tries\)"):
        Downloads(private=True, timeout=1).fetch(f"{web.at}/cut")
    with pytest.raises(NotDownloaded, match=r"^it was not complete after 1 seconds$"):
        Downloads(private=True, timeout=1).fetch(f"{web.at}/drip")
    with pytest.raises(NotDownloaded, match=r"^it is redirected in a circle, or more than 5 times$"):
        Downloads(private=True).fetch(f"{web.at}/loop")
    with pytest.raises(NotDownloaded, match="404 not found"):
        Downloads(private=True).fetch(f"{web.at}/gone")
    assert web.asked["/gone"] == 1  # it is not tried again
    assert Downloads(private=True).fetch(f"{web.at}/busy-at-first")
    assert web.asked["/busy-at-first"] == 3
    with pytest.raises(NotDownloaded, match="503"):
        Downloads(private=True, tries=1).fetch(f"{web.at}/busy")
    with pytest.raises(NotDownloaded):
        Downloads(private=True, tries=1).fetch("ftp://127.0.0.1/x")


def test_what_is_kept_is_not_downloaded_again(web: Web, tmp_path: Path) -> None:
    urls = [f"{web.at}/{n}.png" for n in range(8)]
    table = write_table(tmp_path / "urls.csv", urls)
    for out in ("one", "two"):
        source = sources.table(table, image_column="url", private=True, downloads=tmp_path / "kept")
        bushel.build(source, tmp_path / out, run=bushel.Run(workers=1))
    assert set(web.asked.values()) == {1}
    [one], [two] = (list((tmp_path / out).glob("*.tfrecord")) for out in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_downloads_run_side_by_side(web: Web) -> None:
    running, most, lock = 0, 0, threading.Lock()
    fetch = Downloads._download

    def counted(self: Downloads, url: str) -> bytes:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        try:
            return fetch(self, url)
        finally:
            with lock:
                running -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Downloads, "_download", counted)
        found = list(Downloads(private=True, threads=4).fetch_all([f"{web.at}/{n}.png" for n in range(12)]))
    assert all(isinstance(data, bytes) for data in found)
    assert 1 < most <= 4


def test_urls_are_read_without_a_build_and_from_the_command_line_too(web: Web, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from bushel.cli import cli

    table = write_table(tmp_path / "urls.csv", [f"{web.at}/{n}.png" for n in range(6)])
    source = sources.table(table, image_column="url", private=True)
    assert len(next(bushel.batches(source, batch_size=6))["url"]) == 6
    options = ["--set", "image_column=url", "--set", "private=true", "--workers", "1"]
    done = CliRunner().invoke(cli, ["build", str(table), str(tmp_path / "data"), *options])
    assert done.exit_code == 0, done.output
    assert len(bushel.open(tmp_path / "data")["train"]) == 6
