"""Reading from web servers: files by ranges, folders by their manifest or by a page of links."""

import hashlib
import re
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from storage_server import forget_clients

import bushel
from bushel.errors import FileProblem
from bushel.storage import as_path, list_files


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder with ranges and entity tags, and pages of links."""

    protocol_version = "HTTP/1.1"
    has_pages = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def list_directory(self, path: Any) -> Any:
        return super().list_directory(path) if self.has_pages else self.send_error(403)

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            if (page := self.send_head()) is not None:
                self.wfile.write(page.read() if self.command == "GET" else b"")
            return
        data = path.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        start, stop = (int(found[1]), min(int(found[2] or len(data)) + 1, len(data))) if found else (0, len(data))
        self.send_response(206 if found else 200)
        self.send_header("ETag", f'"{hashlib.md5(data).hexdigest()}"')
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if found:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[start:stop] if self.command == "GET" else b"")


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and its address."""
    for name in ("BUSHEL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    forget_clients()
    folder = tmp_path / "www"
    folder.mkdir()
    monkeypatch.setattr(Handler, "directory", str(folder), raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Handler(*given, directory=str(folder)))  # type: ignore[arg-type]
    Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    forget_clients()


@pytest.mark.parametrize("has_pages", [True, False], ids=["with pages", "without pages"])
def test_a_dataset_of_a_web_server_gives_the_batches_of_a_local_one(
    web: tuple[Path, str], has_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "has_pages", has_pages)
    folder, address = web
    bushel.build({"x": np.arange(500)}, folder / "data", shards=4, run=bushel.Run(workers=1))
    order = bushel.Order(shuffle=True, seed=4)
    here, there = (bushel.open(place)["train"] for place in (folder / "data", f"{address}/data"))
    pairs = zip(
        bushel.batches(here, batch_size=30, order=order), bushel.batches(there, batch_size=30, order=order), strict=True
    )
    assert all(np.array_equal(one["x"], other["x"]) for one, other in pairs)


def test_a_folder_of_files_is_listed_by_its_page_of_links(web: tuple[Path, str]) -> None:
    folder, address = web
    (folder / "a b").mkdir()
    for number in range(3):
        (folder / "a b" / f"{number} é.csv").write_text("x\n" + "".join(f"{number * 10 + i}\n" for i in range(10)))
    (folder / "other.txt").write_text("x")
    assert [path.name for path in list_files(f"{address}/a b")] == [f"{number} é.csv" for number in range(3)]
    assert [path.name for path in list_files(f"{address}/a%20b/*.csv")] == [f"{number} é.csv" for number in range(3)]
    bushel.build(f"{address}/a b/*.csv", folder / "out", run=bushel.Run(workers=1))
    assert sorted(bushel.read(folder / "out", ["x"])["x"].tolist()) == list(range(30))
    with pytest.raises(FileProblem, match="there is no such object"):
        list_files(f"{address}/nothing")


def test_nothing_is_written_to_a_web_server(web: tuple[Path, str]) -> None:
    with pytest.raises(FileProblem) as caught:
        bushel.build({"x": np.arange(5)}, f"{web[1]}/out")
    assert str(caught.value) == (
        f"{web[1]}/out: nothing can be written to a web server\n"
        "  Write to a folder of this machine or to a store: s3://, gs:// or az://."
    )
    with pytest.raises(FileProblem, match="nothing can be written"):
        as_path(f"{web[1]}/x").write_bytes(b"x")


def test_a_server_that_sends_whole_files_only_is_named(web: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    monkeypatch.setattr(Handler, "do_GET", SimpleHTTPRequestHandler.do_GET)
    monkeypatch.setattr(Handler, "do_HEAD", SimpleHTTPRequestHandler.do_HEAD)
    bushel.build({"x": np.arange(50)}, folder / "data", run=bushel.Run(workers=1))
    split = bushel.open(f"{address}/data")["train"]
    with pytest.raises(FileProblem, match=r"server '127.0.0.1:\d+' does not answer requests for parts of files"):
        next(iter(bushel.batches(split, batch_size=8)))
