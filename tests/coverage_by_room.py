"""Print the share of lines and branches that tests reach, room by room; `make coverage` calls it with a JSON report."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def counts_by_room(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> dict[str, Counter[str]]:
    """The counts of each room: a folder of src/bushel, or a module directly in it."""
    rooms: dict[str, Counter[str]] = {}
    for name, found in report["files"].items():
        parts = Path(name).parts
        room = parts[parts.index("bushel") + 1]
        rooms.setdefault(room, Counter()).update({count: found["summary"][count] for count in COUNTS})
    return rooms


def table_of(rooms: dict[str, Counter[str]]) -> str:
    """A line for each room, the one with the fewest branches reached first, and one for all."""
    rows = sorted(
        rooms.items(), key=lambda item: (_share(item[1]["covered_branches"], item[1]["num_branches"]), item[0])
    )
    total = sum(rooms.values(), Counter[str]())
    lines = [f"{'room':20} {'lines':>8} {'reached':>8} {'branches':>9} {'reached':>8}"]
    for name, found in (*rows, ("all", total)):
        lines.append(
            f"{name:20} {found['num_statements']:8,} {_share(found['covered_lines'], found['num_statements']):8.1%}"
            f" {found['num_branches']:9,} {_share(found['covered_branches'], found['num_branches']):8.1%}"
        )
    return "\n".join(lines)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0  # of nothing, nothing is missing


if __name__ == "__main__":
    sys.stdout.write(table_of(counts_by_room(json.loads(Path(sys.argv[1]).read_text()))) + "\n")
