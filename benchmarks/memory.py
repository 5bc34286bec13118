"""Anonymous memory while bushel goes through one large file; Linux only, as it reads /proc.

Anonymous memory (RssAnon) is what a process holds itself; pages of a mapped file are the kernel's. The processes that
the command starts are added.
"""

import subprocess
import sys
import time
from pathlib import Path

import runs
from data import DATA_SETS, make
from table import Limit, settings, show

RECORDS = 160_000
INTERVAL_SECONDS = 0.02
LIMIT = Limit(200.0)
SCAN = "import sys, bushel\nfor sample in bushel.scan(sys.argv[1]): pass"


def commands(path: Path) -> dict[str, list[str]]:
    """Name what is watched."""
    return {
        "bushel.scan": [sys.executable, "-c", SCAN, str(path)],
        "bushel info": [str(Path(sys.executable).with_name("bushel")), "info", str(path)],
    }


def watch(command: list[str]) -> tuple[float, float]:
    """Run the command and return the most megabytes it held at once, and its seconds."""
    start, most = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(anonymous_kilobytes(pid) for pid in family(process.pid)))
            time.sleep(INTERVAL_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {process.returncode}")
    return most / 1000, time.perf_counter() - start


def family(pid: int) -> list[int]:
    """List the process and all that it started."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found.extend(map(int, _text(task).split()))
    return found


def anonymous_kilobytes(pid: int) -> int:
    """Read RssAnon of the process; 0 once it has ended."""
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def main() -> None:
    options = runs.arguments(__doc__, "dir", "scale", "writer", "json").parse_args()
    with runs.directory(options.dir) as directory:
        path = make(
            DATA_SETS["images"], runs.scaled(RECORDS, options.scale), directory=directory, writer=options.writer
        )
        try:
            size = path.stat().st_size / 1e9
            found = {name: watch(command) for name, command in commands(path).items()}
        finally:
            path.unlink()
    lines = [
        {"what": name, "MB at most": megabytes, **LIMIT.judge(megabytes), "seconds": seconds, "GB/s": size / seconds}
        for name, (megabytes, seconds) in found.items()
    ]
    facts = settings(file=f"{size:.2f} GB", writer=options.writer)
    show("Anonymous memory while going through one file", facts, lines, json_path=options.json)


if __name__ == "__main__":
    main()
