"""Whatever is in a text table comes out of it, wherever its blocks are cut."""

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from gather import keys_of, read_all
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel.sources import table, text_files
from bushel.sources.tables import table_files as surveys

# No lone carriage returns: CSV reads them as ends of rows.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=12)
NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), NUMBER, TEXT), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with (
        patch.object(text_files.TextFile.blocks, "__defaults__", (0, None, 50)),
        patch.object(surveys, "PART_BYTES", 120),
    ):
        yield


def read_back(name: str, data: str) -> tuple[dict[str, Any], Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data.encode())
        source = table(path, types={"text": "str"} if name.endswith("csv") else None)
        assert len(keys_of(source)) == sum(part.rows for _, part in source.parts)
        columns, refused = read_all(source)
        assert not refused
        return columns, source


@settings(deadline=None, max_examples=60)
@given(ROWS, st.sampled_from(["minimal", "all"]), st.sampled_from(["\n", "\r\n"]))
def test_csv(rows: list[tuple[int, int | None, str]], quoting: str, end: str) -> None:
    out = io.StringIO(newline="")
    how = csv.QUOTE_ALL if quoting == "all" else csv.QUOTE_MINIMAL
    writer = csv.writer(out, quoting=how, lineterminator=end)
    writer.writerow(["id", "number", "text"])
    writer.writerows(rows)
    columns, _ = read_back("a.csv", out.getvalue())
    assert columns["id"] == [row[0] for row in rows]
    assert columns["text"] == [row[2].encode() for row in rows]
    numbers = [row[1] for row in rows]
    assert columns["number"] == numbers


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(NUMBER, TEXT | st.just(""), st.lists(st.floats(width=32, allow_nan=False))), min_size=1, max_size=30
    )
)
def test_json_lines(rows: list[tuple[int | None, str, list[float]]]) -> None:
    lines = [
        json.dumps({"number": n, "text": t, "list": values}, allow_nan=False)
        for n, t, values in rows
        if not _wide(values)
    ]
    if not lines:
        return
    columns, _ = read_back("a.jsonl", "\n".join(lines) + "\n")
    kept = [row for row in rows if not _wide(row[2])]
    assert columns["number"] == [row[0] for row in kept]
    assert columns["text"] == [row[1].encode() for row in kept]


def _wide(values: list[float]) -> bool:
    return any(value in (float("inf"), float("-inf")) for value in values)
