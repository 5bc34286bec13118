"""What every benchmark shares: its options, its directory, and timing in turns."""

import argparse
import gc
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

OPTIONS = {
    "dir": {"type": Path, "help": "keep the files here and use them again [default: temporary]"},
    "scale": {"type": float, "default": 1.0, "help": "share of the records [default: %(default)s]"},
    "rounds": {"type": int, "default": 5, "help": "take the best of so many [default: %(default)s]"},
    "writer": {
        "choices": ("bushel", "tf"),
        "default": "bushel",
        "help": "what writes the files [default: %(default)s]",
    },
    "json": {"type": Path, "metavar": "FILE", "help": "write the numbers to FILE too"},
}


def arguments(description: str, *names: str) -> argparse.ArgumentParser:
    """Make a parser of the named options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    return parser


@contextmanager
def directory(given: Path | None) -> Iterator[Path]:
    """Open the directory to work in: `given`, which is kept, or one that is removed at the end."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
    else:
        with tempfile.TemporaryDirectory(prefix="bushel-benchmarks-") as made:
            yield Path(made)


def scaled(records: int, scale: float) -> int:
    """Take the share `scale` of `records`, and at least one."""
    return max(1, round(records * scale))


def warm(path: Path) -> None:
    """Read the file once, so that every rival finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(8 << 20):
            pass


def drain(iterable: Iterable) -> None:
    """Iterate to the end and keep nothing."""
    deque(iterable, maxlen=0)


def race(
    calls: Mapping[str, Callable[[], object]], *, rounds: int, between: Callable[[], object] = gc.collect
) -> tuple[dict[str, float], float | None]:
    """Return seconds of the best round of each call, and the share of the cores that other processes took meanwhile.

    In each round all have their turn; `between` is not timed.
    """
    best = dict.fromkeys(calls, float("inf"))
    before = _clocks()
    for _ in range(rounds):
        for name, call in calls.items():
            between()
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best, _others(before, _clocks())


def _clocks() -> tuple[float, float, float] | None:
    """Read seconds since some start, of all cores: passed, busy, and busy for this process and its children."""
    try:
        ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except FileNotFoundError:
        return None
    idle = ticks[3] + ticks[4]
    second = os.sysconf("SC_CLK_TCK")
    return sum(ticks) / second, (sum(ticks) - idle) / second, sum(os.times()[:4])


def _others(before: tuple[float, float, float] | None, after: tuple[float, float, float] | None) -> float | None:
    if before is None or after is None:
        return None
    passed, busy, own = (late - early for early, late in zip(before, after, strict=True))
    return max(0.0, (busy - own) / passed) if passed else None


def say(text: str) -> None:
    """Print progress, beside the results."""
    print(text, file=sys.stderr, flush=True)
