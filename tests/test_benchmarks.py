"""Every benchmark runs to its end: what it says at such a size is worth nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

EVERY = Path(__file__).parent.parent / "benchmarks" / "every.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EVERY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_unknown_benchmark_is_named() -> None:
    done = run("raed")
    assert done.returncode == 2
    assert "there is no benchmark 'raed' here" in done.stderr


def test_a_quick_benchmark_says_that_it_ran() -> None:
    done = run("many_shards", "--quick")
    assert done.returncode == 0, done.stderr
    assert "10,000 records in 20 shards: first batch after " in done.stdout
    assert "=== many_shards: " in done.stdout


@pytest.mark.parametrize(
    ("question", "first"), [("project", "rows scheduler plan"), ("costs", "images names plan listing")]
)
def test_a_projection_without_figures_says_what_to_run_first(tmp_path: Path, question: str, first: str) -> None:
    command = [sys.executable, str(EVERY.with_name("cluster.py")), question, "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"not measured: run `{first}` with it first\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_every_benchmark_runs_to_its_end() -> None:
    done = run("--quick")
    assert done.returncode == 0, done.stderr[-4000:]
