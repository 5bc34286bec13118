"""The tools around the code: what runs before a commit is what `make check` runs, and coverage is counted by room."""

import re
from pathlib import Path

import yaml
from coverage_by_room import counts_by_room, table_of

ROOT = Path(__file__).parent.parent


def test_the_hooks_run_what_make_check_runs() -> None:
    target = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert target is not None
    asked = [line.strip().removesuffix(" $(CXX_SOURCES)") for line in target[1].splitlines()]
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"].replace(".venv/bin", "$(BIN)") for hook in repo["hooks"]] == asked


def _counts(lines: int, covered: int, branches: int, taken: int) -> dict[str, dict[str, int]]:
    names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {"summary": dict(zip(names, (lines, covered, branches, taken), strict=True))}


def test_coverage_is_summed_by_room_with_the_least_covered_first() -> None:
    files = {
        "src/bushel/data/schema.py": _counts(10, 10, 4, 4),
        "src/bushel/data/deep/columns.py": _counts(10, 5, 4, 2),
        "src/bushel/errors.py": _counts(8, 8, 4, 1),
        "src/bushel/py_typed.py": _counts(1, 1, 0, 0),
    }
    lines = table_of(counts_by_room({"files": files})).splitlines()
    assert [line.split()[0] for line in lines] == ["room", "errors.py", "data", "py_typed.py", "all"]
    assert lines[2].split() == ["data", "20", "75.0%", "8", "75.0%"]
    assert lines[-1].split() == ["all", "29", "82.8%", "12", "58.3%"]
