"""Rows that are made to break a reader: each is refused with its place, and the others are built."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import bushel


def refusals(source: Path, out: Path) -> tuple[int, list[tuple[str, str]]]:
    """How many records were built, and where and why the others were not."""
    built = bushel.build(source, out)
    lines = (out / "_quarantine.jsonl").read_text().splitlines()
    records = sum(shard.records for split in built.manifest.splits.values() for shard in split.shards)
    return records, [(line["source"].split(": ")[1], line["reason"]) for line in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"x":' + "[" * 100_000 + "]" * 100_000 + ',"label":1}', "the line is nested deeper than 64 levels"),
        ('{"x":{"a":{"b":3}},"label":1}', "x: expected number, got object"),
        ('{"x":[1,[2,"a"]],"label":1}', "x: expected number, got list"),
    ],
    ids=["deep", "object", "mixed list"],
)
def test_one_line_of_json_is_refused_and_the_rest_goes_on(tmp_path: Path, line: str, reason: str) -> None:
    lines = [json.dumps({"x": i, "label": i % 2}) for i in range(20)]
    lines[7] = line
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert refusals(path, tmp_path / "out") == (19, [("row 7", reason)])


def test_lists_of_other_values_in_the_middle_are_refused_line_by_line(tmp_path: Path) -> None:
    lines = [json.dumps({"x": [1, 2, 3]}) for _ in range(20)]
    lines[7] = json.dumps({"x": ["a", "b", "c"]})
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert refusals(path, tmp_path / "out") == (19, [("row 7", "x: expected number, got str")])


def test_a_row_of_csv_that_is_too_long_and_not_text_is_refused(tmp_path: Path) -> None:
    rows = [f"{i},text{i}".encode() for i in range(50)]
    rows[20] = b"1,caf\xe9,more,values"
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,text\n" + b"\n".join(rows) + b"\n")
    assert refusals(path, tmp_path / "out") == (49, [("row 20", "the row has 4 values, the header 2")])


def test_a_file_of_a_tar_that_no_record_can_hold_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        for name, size in (("000.cls", 1), ("001.bin", (2 << 30) + 5), ("002.cls", 1)):
            member = tarfile.TarInfo(name)
            member.size = size
            file.write(member.tobuf())
            if size == 1:
                file.write(b"1".ljust(512, b"\0"))
            else:
                file.seek(-(-size // 512) * 512, 1)  # a hole in the file: nothing of it is on disk
        file.write(bytes(1024))
    reason = "001.bin: 2.0 GiB is more than a record holds"
    assert refusals(path, tmp_path / "out") == (2, [("001", reason)])


@pytest.mark.parametrize("depth", [66, 200, 800, 1600, 20_000])
@pytest.mark.parametrize("marks", ['{"a":|}', "[|]"])
@pytest.mark.parametrize("layout", ["lines", "array"])
def test_a_row_that_is_nested_too_deep_is_refused_and_the_others_are_built(tmp_path, depth, marks, layout):
    begin, end = marks.split("|")
    rows = [f'{{"x": {n}}}' for n in range(10)]
    rows[5] = f'{{"x": 5, "y": {begin * depth}1{end * depth}}}'
    text = "\n".join(rows) if layout == "lines" else "[" + ",".join(rows) + "]"
    (tmp_path / "rows.json").write_text(text)
    built = bushel.build(tmp_path / "rows.json", tmp_path / "out", run=bushel.Run(workers=1, max_bad=1))
    assert (built.records, built.refused) == (9, 1)
    assert "is nested deeper than 64 levels" in (tmp_path / "out" / "_quarantine.jsonl").read_text()


def claiming_array() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    return file.getvalue() + bytes(64)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("json", b'{"a":' * 3000 + b"1" + b"}" * 3000, "json: it is nested deeper than 64 levels"),
        ("json", b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "json: it is nested deeper than 64 levels"),
        ("npy", claiming_array(), "npy: it says that it has 1,000,000,000,000 values, and it has 192 bytes"),
    ],
)
def test_a_member_of_a_tar_that_claims_too_much_is_refused_and_the_others_are_built(tmp_path, name, data, why):
    with tarfile.open(tmp_path / "samples.tar", "w") as archive:
        for number in range(6):
            for suffix, content in {"txt": b"text", **({name: data} if number == 3 else {})}.items():
                info = tarfile.TarInfo(f"s{number}.{suffix}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    built = bushel.build(tmp_path / "samples.tar", tmp_path / "out", run=bushel.Run(workers=1, max_bad=1))
    assert (built.records, built.refused) == (5, 1)
    assert why in (tmp_path / "out" / "_quarantine.jsonl").read_text()


def test_lines_that_are_null_and_names_that_occur_twice_are_refused_by_row(tmp_path):
    """Arrow's parser ends the process at a first line of null, and a whole file at a name that occurs twice."""
    lines = [
        "null",
        '{"a": 1, "b": "x"}',
        '{"a": 2, "a": 3, "b": "y"}',
        " null ",
        '{"a": 4, "b": {"c": 1}}',
        '{"a": 5}',
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "bushel", "build", "rows.jsonl", "out"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stderr
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "out" / "_quarantine.jsonl").read_text().splitlines()]
    assert sum("not a JSON object but" in reason for reason in reasons) == 2
    assert sum(reason == "the name 'a' occurs twice in one object" for reason in reasons) == 1
