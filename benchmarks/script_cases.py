"""How many faults in strangers' scripts `bushel check --script` finds, and how often it warns about correct ones.

    python benchmarks/script_cases.py [--second | --third] [--run] [--only TEXT] [--at-once N] [--json FILE]

The scripts in benchmarks/scripts were written without looking at the checker and are frozen; so are those of a second
and a third set, written later, when the results on those before had become known. A fault counts as
*located* when a finding above info points at its statement or at the pipeline link that holds it, and as *found* when
there is any finding above info. A correct script counts as *quiet* when there is none. The results so far are in
benchmarks/scripts.md.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
LOUD = ("warning", "error")


@dataclass(frozen=True)
class Outcome:
    """What the checker said about one script."""

    name: str
    faulty: bool
    located: bool
    rules: list[str]
    seconds: float
    exit_code: int


def cases(folder: Path, only: str) -> list[Path]:
    found = sorted([*folder.glob("faulty/*/case.json"), *folder.glob("correct/*/case.json")])
    return [path for path in found if only in str(path)]


def begin(root: Path, run: bool) -> None:
    """Make a process ready: scripts that run are forked from one that has TensorFlow."""
    os.chdir(root)
    if run:
        from bushel.checking.running import warm_runs

        ready = contextlib.ExitStack()
        ready.enter_context(warm_runs())
        atexit.register(ready.close)


def check(case: Path, root: Path, run: bool) -> Outcome:
    import bushel

    told = json.loads(case.read_text())
    data = root / "data" / told["dataset"]
    script = case.parent / told["entry"]
    began = time.perf_counter()
    try:
        args = told.get("args", "") if run else ""
        report = bushel.check(data if data.exists() else None, script=script, run=run, run_args=args)
    except bushel.BushelError:
        return Outcome(case.parent.name, "fault" in told, False, [], time.perf_counter() - began, 2)
    seconds = time.perf_counter() - began
    findings = [finding.to_json() for finding in report]
    loud = [finding for finding in findings if finding["severity"] in LOUD and about_script(finding, case.parent)]
    places = [*told.get("culprit", []), *told.get("link", [])]
    located = any(points_at(place, spot) for finding in loud for place in finding["locations"] for spot in places)
    rules = sorted({finding["rule"] for finding in loud})
    code = 2 if report.is_cut_off else int(report.fails())
    return Outcome(case.parent.name, "fault" in told, located, rules, seconds, code)


def about_script(finding: dict[str, Any], folder: Path) -> bool:
    """Findings about the data alone say nothing about the script."""
    files = [str(place.get("file") or "") for place in finding["locations"]]
    return finding["rule"].startswith(("PIP", "EXE", "KER")) or any(Path(file).name in names(folder) for file in files)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.suffix in (".py", ".ipynb")}


def points_at(place: dict[str, Any], spot: dict[str, Any]) -> bool:
    file, _, cell = str(place.get("file") or "").partition(":cell ")
    line = place.get("line")
    if line is None or Path(file).name != Path(spot["file"]).name:
        return False
    if "cell" in spot and cell and int(cell) not in (spot["cell"], spot["code_cell"]):
        return False
    return spot["first_line"] <= line <= spot["last_line"]


def mark_of(outcome: Outcome) -> str:
    if not outcome.faulty:
        return "LOUD" if outcome.rules else "quiet"
    return "located" if outcome.located else "found" if outcome.rules else "-"


def show(outcomes: list[Outcome]) -> None:
    faulty = [outcome for outcome in outcomes if outcome.faulty]
    correct = [outcome for outcome in outcomes if not outcome.faulty]
    if faulty:
        located = sum(outcome.located for outcome in faulty)
        found = sum(bool(outcome.rules) for outcome in faulty)
        print(f"faulty scripts: {len(faulty)}; found {found} ({found / len(faulty):.0%}), ", end="")
        print(f"located {located} ({located / len(faulty):.0%})")
    if correct:
        loud = [outcome for outcome in correct if outcome.rules]
        print(
            f"correct scripts: {len(correct)}; with a finding above info {len(loud)} ({len(loud) / len(correct):.1%})"
        )
    times = sorted(outcome.seconds for outcome in outcomes)
    print(f"median {times[len(times) // 2]:.1f} s a script")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for later in ("second", "third"):
        parser.add_argument(f"--{later}", dest="set", action="store_const", const=later, default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=2, help="processes  [default: 2]")
    parser.add_argument("--json")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(SCRIPTS / "make_data.py"), folder], check=True, capture_output=True)
        root, outcomes = Path(folder), []
        found = cases(SCRIPTS / told.set, told.only)
        with ProcessPoolExecutor(told.at_once, get_context("spawn"), begin, (root, told.run)) as pool:
            for outcome in pool.map(check, found, repeat(root), repeat(told.run)):
                outcomes.append(outcome)
                cut = " (cut off)" if outcome.exit_code == 2 else ""
                print(f"{outcome.name:45} {mark_of(outcome):8} {' '.join(outcome.rules)}{cut}", flush=True)
    show(outcomes)
    if told.json:
        Path(told.json).write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))


if __name__ == "__main__":
    main()
