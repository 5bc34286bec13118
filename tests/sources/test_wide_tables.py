"""Tables with very many columns."""

import json
from pathlib import Path

import bushel


def test_a_csv_of_fifty_thousand_columns_is_read(tmp_path: Path) -> None:
    """Its first line alone is longer than Python's csv module takes for one value."""
    count = 50_000
    names = [f"c{number}" for number in range(count)]
    rows = [[str(row * 7 + number % 10) for number in range(count)] for row in range(3)]
    (tmp_path / "wide.csv").write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    source = bushel.sources.table(tmp_path / "wide.csv")
    assert len(source.schema().features) == count
    (block,) = source.read(0, None)
    assert [int(block.columns[f"c{number}"][2]) for number in (0, 9, 49_999)] == [14, 23, 23]


def test_json_lines_of_twenty_thousand_names_are_read(tmp_path: Path) -> None:
    """Names were once compared with all others: time grew with the square of their number."""
    count = 20_000
    rows = [{f"c{number}": row * 7 + number % 10 for number in range(count)} for row in range(3)]
    (tmp_path / "wide.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    source = bushel.sources.table(tmp_path / "wide.jsonl")
    assert len(source.schema().features) == count
    (block,) = source.read(0, None)
    assert [int(block.columns[f"c{number}"][2]) for number in (0, 9, 19_999)] == [14, 23, 23]
