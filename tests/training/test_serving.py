"""A served model answers requests, and no request ends it."""

import base64
import http.client
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import local_server
from bushel.training import Options, train
from bushel.training.serving import Drift, Limits, ServedModel, serve

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees for a table with a vector, a category and a number that is often missing."""
    folder = tmp_path_factory.mktemp("served") / "run"
    train(table, Options(model="trees", epochs=3), out=folder)
    return folder


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[int]:
    """`bushel serve` in a process of its own; its port."""
    command = [sys.executable, "-m", "bushel", "serve", str(run), "--port", "0", "--max-size", "1", "--max-rows", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().rpartition(":")[2])
        assert process.poll() is None, "a request ended the server"
        process.send_signal(signal.SIGINT)
        process.wait(60)


def ask(
    port: int, path: str, body: Any = None, kind: str = "application/json", **headers: str
) -> tuple[int, dict[str, Any]]:
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    more = {"content-type": kind} if body is not None else {}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET" if body is None else "POST", path, sent, {**more, **headers})
        answer = connection.getresponse()
        assert answer.headers["content-type"] == "application/json"
        text = answer.read()
    assert text.count(b"\n") == 1
    return answer.status, json.loads(text)


HEAD = b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
GOOD = {"x": [0.5, 0.1, 0.2, 0.3], "colour": "red", "size": 0.5}


def test_rows_are_predicted_as_bushel_predict_does_and_bad_ones_say_why(server: int, run: Path) -> None:
    rows = [GOOD, {**GOOD, "size": None}, {**GOOD, "x": [1, 2]}]
    status, found = ask(server, "/predict", rows)
    assert status == 200
    good, without, bad = found["predictions"]
    expected = json.loads(
        json.dumps([{"label": one.label, "scores": one.scores} for one in bushel.predict_rows(run, rows[:2])])
    )
    assert [{name: one[name] for name in ("label", "scores")} for one in (good, without)] == expected
    assert good["label"] == "yes"
    assert bad == {"name": "row 2", "why": "expected float32[4], got 2 values - at x"}
    assert ask(server, "/predict", {"rows": rows})[1] == found


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"{", 400, "this is not JSON: Input data was truncated"),
        (b"[" * 100_000, 400, "this is not JSON: "),
        (b"\xff\xfe", 400, "this is not JSON: "),
        ([], 400, 'send a list of rows, or {"rows": [...]}, with at least one row'),
        ({"x": 1}, 400, 'send a list of rows, or {"rows": [...]}, with at least one row'),
        ([GOOD] * 51, 413, "a request may have 50 rows, and this one has 51"),
        (b" " * (1 << 20) + b"[]", 413, "a request may have 1,048,576 bytes"),
        ([7], 422, "row 0: expected an object with values by name, got 7"),
        ([{**GOOD, "x": "no"}], 422, "row 0: expected float32[4], got 'no' - at x"),
        ([{**GOOD, "x": [[1], [1, 2]]}], 422, "row 0: expected float32[4], got [[1], [1, 2]] - at x"),
        ([{**GOOD, "x": [10**400] * 4}], 422, "row 0: expected float32[4], got [1000"),
        ([{**GOOD, "x": {"base64": "AAAA"}}], 422, "row 0: expected float32[4], got {'base64': 'AAAA'} - at x"),
        ([{**GOOD, "colour": 3}], 422, "row 0: expected str, got 3 - at colour"),
        ([{**GOOD, "color": "red"}], 422, "row 0: the data of training: no column 'color'; did you mean 'colour'?"),
        ([{"colour": "red"}], 422, "row 0: sample: no feature 'x'"),
    ],
)
def test_a_bad_request_gets_one_line_that_says_why(server: int, body: Any, status: int, why: str) -> None:
    found = ask(server, "/predict", body)
    assert found[0] == status
    assert found[1]["error"].startswith(why)
    assert ask(server, "/health")[0] == 200


def test_other_kinds_paths_and_origins_are_refused(server: int) -> None:
    assert ask(server, "/predict", b"a=1", "application/x-www-form-urlencoded")[0] == 415
    assert ask(server, "/predict", b"some text", "text/plain")[0] == 422
    assert ask(server, "/nothing") == (404, {"error": "there is GET /health and POST /predict"})
    assert ask(server, "/predict")[0] == 405
    assert ask(server, "/predict", [GOOD], origin="http://evil.example")[0] == 403
    assert ask(server, "/health", host="evil.example")[0] == 403


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: int) -> None:
    with socket.create_connection(("127.0.0.1", server), timeout=60) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(20):
            connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_rows_unlike_those_of_training_are_counted(server: int) -> None:
    before = ask(server, "/health")[1]
    status, found = ask(
        server, "/predict", [GOOD, {**GOOD, "colour": "mauve"}, {**GOOD, "x": [1e6, 0, 0, 0], "size": 1e6}]
    )
    assert (status, found["unlike"]) == (200, {"colour": 1, "x": 1, "size": 1})
    after = ask(server, "/health")[1]
    assert after["predicted_rows"] - before["predicted_rows"] == 3
    assert after["drift"]["rows"] - before["drift"]["rows"] == 3
    assert after["status"] == "ok"
    assert after["classes"] == ["maybe", "no", "yes"]


def test_the_mean_of_many_rows_is_compared_with_that_of_training() -> None:
    given = bushel.contract.Input(name="x", kind="number", shape=(2,), mean=[10.0, 0.0], std=[2.0, 1.0])
    drift = Drift([given])
    drift.add({"x": np.full((40, 2), [13.0, 0.0])})
    assert drift.to_json() == {"rows": 40, "unlike": {}, "moved": {"x": 1.5}}


def test_several_clients_at_once_get_their_own_answers(server: int) -> None:
    answers: dict[int, Any] = {}

    def client(number: int) -> None:
        row = {**GOOD, "x": [-1.0 if number % 2 else 1.0, 0, 0, 0], "size": -1.0 if number % 2 else 1.0}
        answers[number] = [ask(server, "/predict", [row])[1]["predictions"][0]["label"] for _ in range(5)]

    threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: ["maybe" if number % 2 else "yes"] * 5 for number in range(6)}


def started(run: Path, **limits: Any) -> ServedModel:
    served = serve(run, port=0, limits=Limits(**limits))
    threading.Thread(target=served.run, daemon=True).start()
    return served


def test_a_body_that_does_not_come_is_not_waited_for(run: Path) -> None:
    served = started(run, seconds=0.2)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(HEAD + b"content-length: 100\r\n\r\n[")
        answer = connection.recv(1000)
        while b"seconds" not in answer and (more := connection.recv(1000)):  # the head may come before the rest
            answer += more
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come within 0.2 seconds" in answer


def test_clients_that_send_one_byte_of_their_body_keep_nobody_out(run: Path) -> None:
    served = started(run, seconds=20, waiting=2)
    with ExitStack() as slow:
        for _ in range(12):
            connection = slow.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            connection.sendall(HEAD + b"content-length: 100\r\n\r\n[")
        assert ask(served.port, "/predict", [GOOD])[0] == 200
        for _ in range(4):  # no more bodies are on their way than is said
            connection = slow.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            connection.sendall(HEAD + b"content-length: 100\r\n\r\n[")
        assert ask(served.port, "/health")[0] == 200


def test_a_connection_without_headers_is_closed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_HEADER_SECONDS", 0.3)
    served = started(run)
    for sent in (b"", b"GET /hea", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
            connection.sendall(sent)
            while connection.recv(1000):
                pass  # ends when the server closes it


def test_a_page_without_an_origin_of_its_own_is_refused(server: int) -> None:
    for origin in ("null", "https://example.org", "http://127.0.0.1.example.org", "file://"):
        assert ask(server, "/predict", [GOOD], origin=origin)[0] == 403
    assert ask(server, "/predict", [GOOD], origin="http://localhost:3000")[0] == 200


def png(pixels: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A small PNG file that says that it is large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def test_images_come_as_bytes_or_in_rows_and_bombs_are_refused(digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    train(digits, Options(epochs=2, preflight=False, tensorboard=False), out=tmp_path / "run")
    served = started(tmp_path / "run")
    record = next(iter(bushel.scan(next(digits.glob("test-*")))))
    picture = record["image"] if isinstance(record["image"], bytes) else bytes(record["image"][0])
    status, alone = ask(served.port, "/predict", picture, "image/png")
    assert status == 200
    row = {"image": {"base64": base64.b64encode(picture).decode()}}
    assert ask(served.port, "/predict", [row])[1]["predictions"][0]["scores"] == alone["predictions"][0]["scores"]
    large = png(np.zeros((20, 30), np.uint8))
    assert ask(served.port, "/predict", large, "image/png")[1]["predictions"][0]["note"].startswith("resized to 8 x 8")
    why = "image: 6000x6000 pixels: more than 25,000,000 are refused as a decompression bomb"
    assert ask(served.port, "/predict", bomb(6000), "image/png") == (422, {"error": why})
    in_row = {"image": {"base64": base64.b64encode(bomb(6000)).decode()}}
    assert ask(served.port, "/predict", [in_row])[1]["error"] == f"row 0: {why}"
    for broken in (b"", b"no picture", picture[:40], os.urandom(5000)):
        status, answer = ask(served.port, "/predict", broken, "image/png")
        assert (status, list(answer)) == (422, ["error"])
    assert ask(served.port, "/predict", [{"image": "7.png"}])[1]["error"] == (
        """row 0: expected bytes as {"base64": "..."}, got '7.png' - at image"""
    )
    assert ask(served.port, "/predict", [{"image": {"base64": "?"}}])[0] == 422
    assert ask(served.port, "/health")[1]["status"] == "ok"


def test_a_taken_port_and_a_folder_without_a_run_are_reported(run: Path, tmp_path: Path) -> None:
    said = pytest.raises(bushel.BushelError, match="cannot serve at 127.0.0.1:.*: address already in use")
    with socket.create_server(("127.0.0.1", 0)) as taken, said:
        serve(run, port=taken.getsockname()[1])
    with pytest.raises(bushel.BushelError, match="this is not a finished run"):
        serve(tmp_path)
    with pytest.raises(ValueError, match="rows must be above 0, got 0"):
        Limits(rows=0)
