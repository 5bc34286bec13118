"""Files that are large, odd or hostile: work stays in proportion to what is there, and can be ended."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import example, frame, header

import bushel
from bushel import _native
from bushel.errors import CorruptRecord, Fault, FileProblem
from bushel.records.files import open_file


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the memory that each scan was given."""
    sizes: list[int] = []
    scan = _native.scan

    def counted(memory: bytes, *rest: int) -> object:
        sizes.append(len(memory))
        return scan(memory, *rest)

    monkeypatch.setattr(_native, "scan", counted)
    return sizes


def test_a_record_of_many_pieces_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = bytes(range(256)) * 1024
    path = tmp_path / "large.tfrecord.gz"
    path.write_bytes(gzip.compress(frame(b"before") + frame(large) + frame(b"behind"), 1))
    sizes = count_scans(monkeypatch)
    chunks = open_file(path).chunks(max_bytes=1024)
    assert [bytes(chunk.payload(row)) for chunk in chunks for row in range(len(chunk.extents))] == [
        b"before",
        large,
        b"behind",
    ]
    assert sum(sizes) < 4 * len(large)


def test_a_length_that_is_claimed_costs_only_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "claims.tfrecord.gz"
    there = bytes(1 << 18)
    path.write_bytes(gzip.compress(frame(b"first") + header(1_900_000_000) + there, 9))
    sizes = count_scans(monkeypatch)
    with pytest.raises(CorruptRecord) as caught:
        list(open_file(path).chunks(max_bytes=1024))
    assert (caught.value.record, caught.value.fault) == (1, Fault.TRUNCATED_DATA)
    assert sum(sizes) < 4 * len(there)


def test_signals_are_answered_while_the_core_works() -> None:
    memory = bytearray(b"x" * (64 << 20))
    found = frame(b"put there by the handler")
    place = len(memory) - 100

    def plant(number: int, stack: object) -> None:
        memory[place : place + len(found)] = found

    before = signal.signal(signal.SIGALRM, plant)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        assert _native.resynchronise(memory, 0) == place
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_in_a_handler_ends_the_work(threads: int) -> None:
    record = _native.frame(bytes(64 << 20))
    extents, _, _ = _native.scan(record, 0, 1, 1)

    def stop(number: int, stack: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            _native.verify(record, extents.repeat(10_000, axis=0), threads)  # 640 GB, if nobody ended it
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_pipe_and_a_device_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.tfrecord"
    os.mkfifo(pipe)
    for path, kind in ((pipe, "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(FileProblem) as caught:
            list(bushel.scan(path))
        assert str(caught.value) == f"{path}: is {kind}, which bushel does not read"


CUT_WHILE_READ = """
import os, sys
import bushel
from bushel.errors import CorruptRecord

path, way = sys.argv[1], sys.argv[2]
if way == "scan":
    records = bushel.payloads(path)
else:
    feed = bushel.batches(bushel.open(path)["all"], batch_size=8, workers=bushel.Workers(threads=1, ahead=1))
    records = iter(feed)
next(records)
os.truncate(path, 5000)
try:
    for _ in records:
        pass
except CorruptRecord as error:
    print(error.record, error.fault.name)
"""


@pytest.mark.parametrize("way", ["scan", "batches"])
@pytest.mark.parametrize("name", ["cut.tfrecord", "cut.tfrecord.gz"])
def test_a_file_that_is_cut_while_it_is_read_is_damaged_and_ends_no_process(
    tmp_path: Path, way: str, name: str
) -> None:
    records = b"".join(_native.frame(example({"x": [i], "y": [os.urandom(8000)]})) for i in range(2000))
    path = tmp_path / name
    path.write_bytes(gzip.compress(records, 1) if name.endswith(".gz") else records)
    command = [sys.executable, "-c", CUT_WHILE_READ, str(path), way]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    record, fault = ran.stdout.split()
    assert 1 <= int(record) < 2000
    assert fault in ("DATA_CRC", "LENGTH_CRC", "TRUNCATED_STREAM", "COMPRESSED_STREAM")
