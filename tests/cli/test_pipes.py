"""Pipes whose reader goes away: progress is dropped and the work goes on; results that nobody gets are exit 1."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Every report of progress is a line, as in a build of hours.
_BUSHEL = """
import sys
from bushel.cli import flags, main
flags._EVERY = 0.0
sys.argv[0] = "bushel"
main()
"""


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "".join(f"{row},{row % 3}\n" for row in range(5000)))
    return path


def start(*arguments: object, stdout: int, stderr: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _BUSHEL, *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=stderr, text=True, timeout=300, check=False)


def test_a_build_whose_log_is_not_read_any_more_goes_on(rows: Path, tmp_path: Path, unread: int) -> None:
    done = start("build", rows, tmp_path / "out", "--label", "label", stdout=subprocess.PIPE, stderr=unread)
    assert done.returncode == 0
    assert f"\n{tmp_path / 'out'}: 5,000 records in 1 shard" in done.stdout
    assert (tmp_path / "out" / "dataset.json").exists()


def test_a_build_whose_summary_nobody_reads_is_whole_and_exits_1(rows: Path, tmp_path: Path, unread: int) -> None:
    done = start("build", rows, tmp_path / "out", "--label", "label", stdout=unread, stderr=unread)
    assert done.returncode == 1
    assert (tmp_path / "out" / "dataset.json").exists()


def test_results_that_nobody_reads_end_a_command_without_words(rows: Path, tmp_path: Path, unread: int) -> None:
    start("build", rows, tmp_path / "out", "--label", "label", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = start("cat", tmp_path / "out", stdout=unread, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_results_on_a_full_disk_are_reported() -> None:
    with Path("/dev/full").open("w") as full:
        done = start("completion", "bash", stdout=full.fileno(), stderr=subprocess.PIPE)
    said = "bushel: the results cannot be written: no space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_error_that_nobody_reads_keeps_its_exit_code(tmp_path: Path, unread: int) -> None:
    assert start("info", tmp_path / "nothing", stdout=unread, stderr=unread).returncode == 2
