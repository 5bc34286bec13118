"""What is left behind when reading ends: nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bushel
from bushel import Order, Workers

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

# A program that was started in the background may have been told to take no notice of Ctrl-C.
LOOP = """
import signal, sys, threading, bushel
signal.signal(signal.SIGINT, signal.default_int_handler)
feed = bushel.batches(bushel.open(sys.argv[1])["train"], batch_size=4, epochs=None, order=bushel.Order(shuffle=True),
                      workers=bushel.Workers(processes=int(sys.argv[2])))
try:
    for number, batch in enumerate(feed):
        if number == 3:
            workers = getattr(feed._pipeline, "workers", [])
            print(*(worker.process.pid for worker in workers), flush=True)
except KeyboardInterrupt:
    feed.close()
    print("left", threading.active_count(), flush=True)
"""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0]


@needs_proc
@pytest.mark.parametrize("processes", [0, 1, 3])
def test_ctrl_c_ends_at_once_and_leaves_no_process_and_no_thread(numbered: Path, processes: int) -> None:
    command = [sys.executable, "-c", LOOP, str(numbered), str(processes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        helpers = list(map(int, program.stdout.readline().split()))
        assert len(helpers) == processes
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline().split() == ["left", "1"]
        assert program.wait(20) == 0
    assert not any(map(is_running, helpers))


@needs_proc
def test_a_killed_program_leaves_no_helper_process(numbered: Path) -> None:
    command = [sys.executable, "-c", LOOP, str(numbered), "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        helpers = list(map(int, program.stdout.readline().split()))
        program.kill()
    for _ in range(200):
        if not any(map(is_running, helpers)):
            return
        time.sleep(0.05)
    raise AssertionError("a helper process is still there")


def held() -> tuple[int, int]:
    maps = len(Path("/proc/self/maps").read_text().splitlines())
    return maps, len(list(Path("/proc/self/fd").iterdir()))


@needs_proc
def test_a_thousand_openings_leak_no_mapping_and_no_file(numbered: Path) -> None:
    def read(times: int) -> None:
        for _ in range(times):
            train = bushel.open(numbered)["train"]
            with bushel.batches(train, batch_size=50, order=Order(shuffle=True), workers=Workers(threads=1)) as feed:
                next(feed)

    read(20)
    maps, files = held()
    read(1000)
    more_maps, more_files = held()
    assert more_files == files
    assert more_maps - maps < 20  # the allocator's own come and go
