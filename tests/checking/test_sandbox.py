"""A script that `check --run` runs changes nothing but its copy, whatever it calls."""

import ctypes
import os
import sys
from pathlib import Path

import pytest

import bushel
from bushel.checking.running.execution import SMALL

pytest.importorskip("tensorflow")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel has no Landlock")

# By the C library: Python's own functions are redirected.
ATTACK = """
import ctypes, os
libc = ctypes.CDLL(None)
large, other, shared = os.path.realpath("large.bin"), {other!r}, {shared!r}
for path in (large, other, "large.bin"):
    name = path.encode()
    libc.truncate(name, ctypes.c_long(0))
    libc.open(name, os.O_WRONLY | os.O_TRUNC)
    libc.open(name, os.O_RDONLY | os.O_TRUNC)
    libc.chmod(name, 0)
    libc.utimensat(-100, name, None, 0)
    libc.unlink(os.path.realpath(path).encode())
libc.unlink(shared.encode())
open("made.txt", "w").write("a script may write into its copy")
assert os.path.getsize("made.txt")
print("large.bin has", os.path.getsize("large.bin"))
"""


@LINUX
def test_a_script_cannot_empty_remove_or_change_files_outside_its_copy(tmp_path: Path) -> None:
    if ctypes.CDLL(None).syscall(444, None, 0, 1) < 3:
        pytest.skip("this kernel lets every file be emptied, and the report says so")
    folder = tmp_path / "code"
    folder.mkdir()
    large, other, shared = folder / "large.bin", tmp_path / "other.txt", Path(f"/dev/shm/bushel-test-{os.getpid()}")
    large.write_bytes(bytes(SMALL + 1))
    other.write_text("mine")
    shared.write_text("of another program")
    try:
        before = [(path.stat().st_size, path.stat().st_mode, path.stat().st_mtime_ns) for path in (large, other)]
        (folder / "train.py").write_text(ATTACK.format(other=str(other), shared=str(shared)))
        report = bushel.check(script=folder / "train.py", run=True, select=["EXE"])
        sandbox = report.checked["run"]["sandbox"]
        after = [(path.stat().st_size, path.stat().st_mode, path.stat().st_mtime_ns) for path in (large, other)]
        assert sandbox["files"]
        assert [one[0] for one in after] == [one[0] for one in before]
        if sandbox["attributes"]:  # otherwise the system does not allow mounts, as the page says
            assert after == before
            assert shared.exists()
        assert [finding.message for finding in report if finding.severity == "error"] == []
    finally:
        shared.unlink(missing_ok=True)
