"""Seconds until `import bushel` is done and `bushel --help` has answered, beside the rivals' imports."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import runs
from table import Limit, settings, share, show

IMPORTS = {
    "import bushel": "import bushel",
    "first use of bushel": "import bushel; bushel.read, bushel.Writer",  # bushel loads its parts when they are named
    "import tfrecord": "import tfrecord",
    "import tensorflow": "import tensorflow",
}
LIMITS = {"import bushel": Limit(0.15), "bushel --help": Limit(0.3)}


def command(*words: str) -> partial:
    """Prepare a call that runs the command and fails if it does."""
    return partial(subprocess.run, words, check=True, capture_output=True)


def start(rounds: int) -> tuple[float, dict[str, float], float | None]:
    """Time bare Python, what each import takes beyond it, and `bushel --help` in all."""
    best, others = runs.race(
        {
            "bare": command(sys.executable, "-c", "pass"),
            **{name: command(sys.executable, "-c", code) for name, code in IMPORTS.items()},
            "bushel --help": command(str(Path(sys.executable).with_name("bushel")), "--help"),
        },
        rounds=rounds,
    )
    bare = best.pop("bare")
    return bare, {name: seconds - bare if name in IMPORTS else seconds for name, seconds in best.items()}, others


def main() -> None:
    parser = runs.arguments(__doc__, "rounds", "json")
    parser.set_defaults(rounds=10)
    options = parser.parse_args()
    bare, best, others = start(options.rounds)
    lines = [
        {"what": name, "seconds": seconds} | (LIMITS[name].judge(seconds) if name in LIMITS else {})
        for name, seconds in best.items()
    ]
    facts = settings(rounds=options.rounds, others=share(others), bare_python=f"{bare:.3f} s, taken off the imports")
    show("Starting, seconds", facts, lines, json_path=options.json)


if __name__ == "__main__":
    main()
