"""Every benchmark that `make bench` runs, one after another; those that fail are named at the end.

python benchmarks/every.py             at full size, for hours
python benchmarks/every.py --quick     so small that the figures say nothing, to see that each runs
python benchmarks/every.py read write  only these
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

# What each is given to be quick.
EVERY: dict[str, list[str]] = {
    "read": ["--scale", "0.002", "--rounds", "1"],
    "write": ["--scale", "0.002", "--rounds", "1"],
    "start": ["--rounds", "1"],
    "build": ["--scale", "0.002"],
    "prepare_images": ["--count", "60", "--rounds", "1"],
    "batches": ["--quick", "--only", "floats"],
    "shuffle_quality": ["--records", "20000"],
    "compressed": ["--scale", "0.01", "--rounds", "1"],
    "many_shards": ["--shards", "20", "--records", "500"],
    "loaders": ["--records", "2000"],
    "cluster": ["scheduler", "--scale", "0.002"],
    "damage": ["--files", "40"],
    "sources": ["--scale", "0.002", "--rounds", "1", "--no-memory"],
    "text": ["--scale", "0.005", "--rounds", "1"],
    "arrow_streams": ["--rows", "20000", "--rounds", "1"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EVERY)} [default: all]")
    parser.add_argument("--quick", action="store_true", help="small, to see that each runs")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(EVERY)):
        parser.error(f"there is no benchmark {unknown[0]!r} here")
    failed = [name for name in options.names or EVERY if not run(name, EVERY[name] if options.quick else [])]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, arguments: list[str]) -> bool:
    """Whether it ran to its end; what it prints is shown as it comes."""
    print(f"\n=== {' '.join([name, *arguments])}", flush=True)
    begun = time.perf_counter()
    script = Path(__file__).with_name(f"{name}.py")
    code = subprocess.run([sys.executable, str(script), *arguments], check=False).returncode
    print(f"=== {name}: {time.perf_counter() - begun:.0f} s, exit code {code}", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
