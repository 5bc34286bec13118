"""Samples from tables."""

import gzip
import io
import itertools
import json
import pickle
import random
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from gather import keys_of, listed, read_all
from hypothesis import given
from hypothesis import strategies as st
from pictures import encode_image, photo
from PIL import Image

from bushel import _native
from bushel.errors import FileProblem, MissingName, SchemaMismatch
from bushel.sources import table, text_files
from bushel.sources.tables import delimited, json_lines
from bushel.sources.tables import table_files as surveys
from bushel.sources.tables.delimited import DelimitedFile
from bushel.sources.tables.json_lines import JsonLinesFile
from bushel.sources.tables.table import TableSource
from bushel.sources.tables.table_files import Capture, Few
from bushel.sources.text_files import TextBlock


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def types_of(source: TableSource) -> dict[str, str]:
    schema = source.schema()
    return {name: schema[name].describe() for name in schema}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes and parts of 256, so that small files have many."""
    monkeypatch.setattr(text_files.TextFile.blocks, "__defaults__", (0, None, 64))
    monkeypatch.setattr(delimited, "_READ_BYTES", 64)
    monkeypatch.setattr(surveys, "PART_BYTES", 256)


def test_csv_columns_are_typed_and_rows_numbered(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "id,score,name,ok\n1,0.5,ann,true\n2,1.5,bob,false\n"))
    assert source.reads == "sequence"
    assert types_of(source) == {"id": "int64", "score": "float32", "name": "str", "ok": "int64"}
    assert keys_of(source) == ["0", "1"]
    assert read_all(source)[0] == {
        "id": [1, 2],
        "score": [0.5, 1.5],
        "name": [b"ann", b"bob"],
        "ok": [True, False],
    }


def test_one_blank_does_not_turn_integers_into_floats(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "age,x\n1,1\n,2\n3,3\n"))
    assert types_of(source) == {"age": "int64, optional", "x": "int64"}
    assert read_all(source)[0]["age"] == [1, None, 3]


@pytest.mark.usefixtures("small_blocks")
def test_types_are_told_over_the_whole_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i},{i},\n" for i in range(200)) + "0.5,x,,\n"
    source = table(write(tmp_path / "a.csv", "f,s,i,nothing\n" + rows))
    assert types_of(source) == {"f": "float32", "s": "str", "i": "int64, optional", "nothing": "str, optional"}
    assert source.partitions() > 3
    columns, refused = read_all(source)
    assert columns["s"] == [*(str(i).encode() for i in range(200)), b"x"]
    assert columns["i"][-2:] == [199, None]
    assert columns["nothing"] == [None] * 201
    assert not refused
    assert keys_of(source) == [str(i) for i in range(201)]


def test_na_is_missing_among_numbers_and_text_among_text(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "n,country\n1,NA\nNA,DE\nNaN,\n"))
    assert read_all(source)[0] == {"n": [1, None, None], "country": [b"NA", b"DE", None]}


def test_leading_zeros_are_kept_where_text_is_asked_for(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "zip\n00123\n04109\n"), types={"zip": "str"})
    assert read_all(source)[0] == {"zip": [b"00123", b"04109"]}


def test_dates_are_microseconds_in_utc_unless_text_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "day,at\n2024-01-02,2024-01-02 03:04:05\n")
    midnight = 1_704_153_600_000_000
    assert read_all(table(path))[0] == {"day": [midnight], "at": [midnight + 11_045_000_000]}
    assert types_of(table(path)) == {"day": "date", "at": "date"}
    texts = read_all(table(path, types={"day": "str", "at": "str"}))[0]
    assert texts == {"day": [b"2024-01-02"], "at": [b"2024-01-02 03:04:05"]}


@pytest.mark.usefixtures("small_blocks")
def test_quotes_commas_and_newlines_inside_values(tmp_path: Path) -> None:
    values = [f'a, "{i}"\nnext line' for i in range(50)]
    rows = "".join('{},"{}"\n'.format(i, value.replace('"', '""')) for i, value in enumerate(values))
    source = table(write(tmp_path / "a.csv", "n,label\n" + rows))
    assert read_all(source)[0] == {"n": list(range(50)), "label": [value.encode() for value in values]}
    assert source.partitions() > 2


@pytest.mark.usefixtures("small_blocks")
def test_a_quote_that_quotes_nothing_does_not_swallow_rows(tmp_path: Path) -> None:
    rows = "".join(f'{i},5" pipe\n' for i in range(51))
    source = table(write(tmp_path / "a.csv", "n,label\n" + rows))
    assert read_all(source)[0]["label"] == [b'5" pipe'] * 51


@pytest.mark.usefixtures("small_blocks")
def test_a_quote_that_is_never_closed_is_told_with_its_line(tmp_path: Path) -> None:
    rows = "".join(f'{i},"value {i}"\n' for i in range(50)) + '50,"open\n' + "51,x\n" * 30
    with pytest.raises(FileProblem, match=r"a\.csv: line 52: a quote is opened and never closed"):
        table(write(tmp_path / "a.csv", "n,label\n" + rows))


@pytest.mark.usefixtures("small_blocks")
def test_a_row_without_end_does_not_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST_ROW", 1 << 10)
    with pytest.raises(FileProblem, match=r"a\.csv: no row ends within 0 MiB of byte 8\n  In a CSV file: is a quote"):
        table(write(tmp_path / "a.csv", 'n,label\n1,"' + "x,y\n" * 1000))


@pytest.mark.usefixtures("small_blocks")
def test_rows_of_the_wrong_width_are_refused_one_by_one(tmp_path: Path) -> None:
    rows = ["1,2"] * 40
    rows[7], rows[30] = "1,2,3", "1"
    source = table(write(tmp_path / "a.csv", "a,b\n\n" + "\n".join(rows) + "\n"))
    columns, refused = read_all(source)
    assert len(columns["a"]) == 38
    assert len(keys_of(source)) == 40
    assert {tuple(r[1:]) for r in refused} == {
        ("read", "the row has 3 values, the header 2"),
        ("read", "the row has 1 values, the header 2"),
    }
    starts = [part.first_row for _, part in source.parts]
    rows_of_source = [
        starts[p] + r.row for p in range(source.partitions()) for block in source.read(p, None) for r in block.refused
    ]
    assert rows_of_source == [7, 30]
    assert listed(source, "a")[7] is None
    assert listed(source, "a")[8] == 1


def test_an_integer_beyond_int64_is_refused_alone(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "hash,x\n1,5\n18446744073709551615,6\n3,7\n"))
    assert types_of(source)["hash"] == "int64"
    columns, refused = read_all(source)
    assert columns == {"hash": [1, 3], "x": [5, 7]}
    assert refused == [(1, "read", "hash: 18446744073709551615 does not fit int64")]


def test_values_that_are_not_of_the_type_asked_for_are_refused(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "age\n1\nold\n3\n"), types={"age": "int64"})
    columns, refused = read_all(source)
    assert columns == {"age": [1, 3]}
    assert refused == [(1, "schema", "age: 'old' is not an integer")]


def test_tabs_semicolons_and_bars_are_told(tmp_path: Path) -> None:
    for name, mark in (("a.tsv", "\t"), ("b.csv", ";"), ("c.csv", "|"), ("d.csv", "\t")):
        source = table(write(tmp_path / name, f"a{mark}b\n1{mark}x,y\n"))
        assert read_all(source)[0] == {"a": [1], "b": [b"x,y"]}


@pytest.mark.parametrize(
    ("encoding", "declared"), [("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252"), ("utf-16-le", "utf-16-le")]
)
@pytest.mark.usefixtures("small_blocks")
def test_odd_encodings(tmp_path: Path, encoding: str, declared: str | None) -> None:
    rows = [f"{i},caf\u00e9 {i}" for i in range(40)]
    path = write(tmp_path / "a.csv", ("n,name \u00e9\n" + "\r\n".join(rows) + "\r\n").encode(encoding))
    columns, refused = read_all(table(path, encoding=declared))
    assert columns == {"n": list(range(40)), "name \u00e9": [f"caf\u00e9 {i}".encode() for i in range(40)]}
    assert not refused


@pytest.mark.usefixtures("small_blocks")
def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"n,name\n" + b"1,x\n" * 100 + b"2,caf\xe9\n" + b"1,x\n" * 9)
    with pytest.raises(FileProblem, match=r"a\.csv: line 102: byte 0xe9 is not UTF-8\n  If it is text in another"):
        table(path)


def test_bytes_without_a_newline_that_are_not_text_are_reported_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\x1bJ\x04\0D\xa3")
    with pytest.raises(FileProblem, match=r"a\.csv: line 1: byte 0xa3 is not UTF-8"):
        table(tmp_path / "a.csv")


@pytest.mark.usefixtures("small_blocks")
def test_gzip_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("n,s\n" + "".join(f"{i},v{i}\n" for i in range(100))).encode()))
    source = table(path)
    assert source.partitions() == 1
    assert read_all(source)[0]["n"] == list(range(100))


def test_header_problems_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"a\.csv: is empty: there is no row of column names"):
        table(write(tmp_path / "a.csv", ""))
    with pytest.raises(FileProblem, match=r"b\.csv: two columns have the same name: x"):
        table(write(tmp_path / "b.csv", "x,y,x\n1,2,3\n"))


def test_tables_without_rows_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"a\.csv: there are no rows in it"):
        table(write(tmp_path / "a.csv", "x,y\n"))
    with pytest.raises(FileProblem, match=r"b\.csv: its lines end in carriage returns alone"):
        table(write(tmp_path / "b.csv", "x,y\r1,2\r3,4\r"))
    with pytest.raises(FileProblem, match=r"c\.json: is a JSON array, but not one of objects\n  Each line must be"):
        table(write(tmp_path / "c.json", "[\n  1,\n  2\n]\n"))


def test_columns_are_chosen_and_renamed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b,species\n1,2,cat\n")
    source = table(path, columns=["b", "species"], rename={"species": "label"})
    assert read_all(source)[0] == {"b": [2], "label": [b"cat"]}
    assert listed(source, "label") == [b"cat"]
    with pytest.raises(MissingName, match="no column 'specis'; did you mean 'species'"):
        table(path, columns=["specis"])
    with pytest.raises(ValueError, match="rename must not give two columns the name 'b'"):
        table(path, rename={"a": "b"})


def test_keys_from_a_column_and_rows_without_one(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "id,x\np1,1\n,2\np3,3\n"), key="id")
    assert keys_of(source) == ["p1", "1", "p3"]
    columns, refused = read_all(source)
    assert columns["x"] == [1, 3]
    assert refused == [(1, "schema", "id: the key is missing")]


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"a": 1, "t": "2020-01-01", "tags": ["x", "y"], "box": {"x": 1, "y": 2.5}, "v": [1, 2.5]},
        {"a": None, "t": "soon", "tags": [], "box": {"x": 3, "y": 4}, "v": []},
    ]
    source = table(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines))))
    assert types_of(source) == {
        "a": "int64, optional",
        "t": "str",
        "tags": "str[?]",
        "box/x": "int64, optional",
        "box/y": "float32, optional",
        "v": "float32[?]",
    }
    columns, _ = read_all(source)
    assert columns["a"] == [1, None]
    assert columns["t"] == [b"2020-01-01", b"soon"]
    assert columns["tags"] == [[b"x", b"y"], []]
    assert columns["box/y"] == [2.5, 4.0]


@pytest.mark.usefixtures("small_blocks")
def test_bad_json_lines_are_refused_one_by_one(tmp_path: Path) -> None:
    lines = [json.dumps({"n": i, "s": "v"}) for i in range(60)]
    lines[3], lines[10], lines[20], lines[41], lines[50] = (
        '{"n": 3',
        "{n: 3}",
        "[1]",
        '{"n": "forty", "s": "v"}',
        '{"n": 99999999999999999999}',
    )
    path = write(tmp_path / "a.jsonl", "\n".join(lines) + "\n")
    assert types_of(table(path)) == {"n": "str, optional", "s": "str, optional"}
    source = table(path, types={"n": "int64"})
    assert types_of(source) == {"n": "int64, optional", "s": "str, optional"}
    columns, refused = read_all(source)
    assert columns["n"] == [i for i in range(60) if i not in (3, 10, 20, 41, 50)]
    assert [r.reason.split(" (")[0] for r in refused] == [
        "the line is not JSON: input data was truncated",
        "the line is not JSON: object keys must be strings",
        "the line is not a JSON object but list",
        "n: 'forty' is not an integer",
        "n: 99999999999999999999 does not fit int64",
    ]
    assert len(keys_of(source)) == 60


def test_json_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"a": "x"}\n{"a": "caf\xe9"}\n')
    with pytest.raises(FileProblem, match=r"a\.jsonl: line 2: byte 0xe9 is not UTF-8"):
        table(path)


@pytest.fixture
def every_type(tmp_path: Path) -> pa.Table:
    return pa.table(
        {
            "i8": pa.array([1, -2, 3], pa.int8()),
            "u64": pa.array([1, 2, 2**64 - 1], pa.uint64()),
            "f32": pa.array([0.5, None, 1.5], pa.float32()),
            "bool": [True, False, None],
            "text": ["\u00e4", None, ""],
            "big": pa.array(["a", "b", "c"], pa.large_string()),
            "raw": [b"\xff", b"", b"\x00"],
            "list": [[1, 2], None, []],
            "words": [["a"], [], ["b", "c"]],
            "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
            "kind": pa.array(["p", "q", "p"]).dictionary_encode(),
            "when": pa.array([datetime(2020, 1, 2)] * 3, pa.timestamp("ms")),
            "money": [Decimal("1.50")] * 3,
            "struct": [{"x": 1, "y": "s"}, {"x": None, "y": "t"}, None],
        }
    )


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow"])
def test_every_type_of_arrows(tmp_path: Path, every_type: pa.Table, name: str) -> None:
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(every_type, path)
    elif name == "a.feather":
        pyarrow.feather.write_feather(every_type, str(path))
    else:
        with pa.ipc.new_stream(str(path), every_type.schema) as stream:
            stream.write_table(every_type)
    source = table(path)
    columns, refused = read_all(source)
    assert refused == [(2, "schema", "u64: 18446744073709551615 does not fit int64")]
    assert columns == {
        "i8": [1, -2],
        "u64": [1, 2],
        "f32": [0.5, None],
        "bool": [True, False],
        "text": ["\u00e4".encode(), None],
        "big": [b"a", b"b"],
        "raw": [b"\xff", b""],
        "list": [[1, 2], None],
        "words": [[b"a"], []],
        "pair": [[1, 2], [3, 4]],
        "kind": [b"p", b"q"],
        "when": [1_577_923_200_000_000] * 2,
        "money": [1.5, 1.5],
        "struct/x": [1, None],
        "struct/y": [b"s", b"t"],
    }
    described = types_of(source)
    assert described["i8"] == "int64"
    assert described["pair"].startswith("int64[2]")
    assert described["f32"] == "float32, optional"


def test_a_missing_value_inside_a_list_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [[1, None], [2]]}), tmp_path / "a.parquet")
    columns, refused = read_all(table(tmp_path / "a.parquet"))
    assert columns == {"v": [[2]]}
    assert refused == [(0, "schema", "v: a value inside the list is missing")]


def test_row_groups_are_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.sources.tables import table_files

    monkeypatch.setattr(table_files, "part_bytes", lambda size: 1)
    pq.write_table(
        pa.table({"x": range(100), "y": [f"v{i}" for i in range(100)]}), tmp_path / "a.parquet", row_group_size=30
    )
    source = table(tmp_path / "a.parquet")
    assert source.partitions() == 4
    assert read_all(source)[0]["x"] == list(range(100))
    assert keys_of(source) == [str(i) for i in range(100)]
    with pytest.raises(ValueError, match="rows must be None"):
        next(source.read(0, np.array([1])))


@pytest.mark.parametrize("name", ["a.feather", "a.arrow"])
def test_batches_are_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from bushel.sources.tables import table_files

    monkeypatch.setattr(table_files, "PART_BYTES", 1)
    made = pa.table({"x": range(100)})
    if name == "a.feather":
        pyarrow.feather.write_feather(made, str(tmp_path / name), chunksize=30)
    else:
        with pa.ipc.new_stream(str(tmp_path / name), made.schema) as stream:
            stream.write_table(made, max_chunksize=30)
    source = table(tmp_path / name)
    assert source.partitions() == 4
    assert read_all(source)[0]["x"] == list(range(100))
    assert next(source.read(2, None)).columns["x"][0] == 60


def test_several_files_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "n,x\n1,1\n")
    write(tmp_path / "b.csv", "n,y\n2.5,2\n")
    source = table([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert types_of(source) == {"n": "float32", "x": "int64, optional", "y": "int64, optional"}
    assert keys_of(source) == ["a.csv:0", "b.csv:0"]
    assert read_all(source)[0] == {"n": [1.0, 2.5], "x": [1, None], "y": [None, 2]}
    write(tmp_path / "c.csv", "n\ntext\n")
    with pytest.raises(SchemaMismatch, match=r"the column is string in this file and int64 in those before"):
        table([tmp_path / "a.csv", tmp_path / "c.csv"])


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "a.parquet")
    write(tmp_path / "a.parquet", (tmp_path / "a.parquet").read_bytes()[:-20])
    with pytest.raises(FileProblem, match=r"a\.parquet: cannot be read as Parquet"):
        table(tmp_path / "a.parquet")


def test_a_page_of_parquet_whose_checksum_differs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    numbers = pa.table({"x": range(1000)})
    pq.write_table(numbers, path, compression="none", use_dictionary=False, write_page_checksum=True)
    damaged = bytearray(path.read_bytes())
    damaged[4000] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FileProblem, match=r"a\.parquet: cannot be read as Parquet: .*CRC checksum"):
        read_all(table(path))


def test_what_is_no_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="is not a table that bushel reads: it is a PDF document"):
        table(write(tmp_path / "a.bin", "%PDF-1.4"))
    write(tmp_path / "rows.csv", "a\n1\n")
    with pytest.raises(FileProblem, match=r"rows\.cvs: there is no such file\n  Did you mean .*rows\.csv"):
        table(tmp_path / "rows.cvs")


def test_a_column_named_split_says_the_split(tmp_path: Path) -> None:
    source = table(write(tmp_path / "a.csv", "x,split\n1,train\n2,test\n"))
    assert source.split == "split"
    assert listed(source, "split") == [b"train", b"test"]
    assert table(write(tmp_path / "b.csv", "x\n1\n")).split is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_label_is_listed_without_another_look_at_the_file(tmp_path: Path, name: str) -> None:
    labels = [None if i == 50 else "NA" if i == 51 else "xyz"[i % 3] for i in range(100)]
    if name == "a.csv":
        text = "n,label\n" + "".join(f"{i},{label or ''}\n" for i, label in enumerate(labels))
    else:
        text = "".join(json.dumps({"n": i, "label": label}) + "\n" for i, label in enumerate(labels))
    source = table(write(tmp_path / name, text), rename={"label": "class"})
    looked_at = listed(pickle.loads(pickle.dumps(source)), "class")
    assert looked_at == [None if label is None else label.encode() for label in labels]
    (tmp_path / name).unlink()
    assert listed(source, "class") == looked_at


@pytest.mark.usefixtures("small_blocks")
def test_a_column_that_looks_like_numbers_first_is_listed_as_it_is(tmp_path: Path) -> None:
    values = ["01", "1"] * 40 + ["x"]
    source = table(write(tmp_path / "a.csv", "n,code\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values))))
    assert listed(source, "code") == [value.encode() for value in values]


def test_pickles_with_what_was_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = table(write(tmp_path / "a.csv", "x,s\n1,a\n2,b\n"))
    data = pickle.dumps(source)
    assert len(data) < 3000
    from bushel.sources.tables import delimited

    monkeypatch.setattr(delimited.DelimitedFile, "survey", None)
    assert read_all(pickle.loads(data)) == read_all(source)


def test_the_fingerprint_changes_with_file_and_options(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,y\n1,2\n")
    first = table(path).fingerprint()
    assert table(path, columns=["x"]).fingerprint() != first
    write(path, "x,y\n1,22\n")
    assert table(path).fingerprint() != first


def jpeg(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (20, 10), (shade, 0, 0)).save(out, "JPEG")
    return out.getvalue()


def test_a_column_of_paths_is_loaded_as_images(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    write(tmp_path / "photos" / "1.jpg", jpeg(1))
    write(tmp_path / "photos" / "2.jpg", b"no image")
    write(tmp_path / "photos" / "4.jpg", jpeg(4))
    rows = "photo,label\nphotos/1.jpg,a\nphotos/2.jpg,b\nphotos/3.jpg,c\n,d\nphotos/4.jpg,e\n"
    source = table(write(tmp_path / "a.csv", rows), image_column="photo", rename={"photo": "image"})
    assert list(source.schema()) == ["image", "image/height", "image/width", "image/channels", "label"]
    columns, refused = read_all(source)
    assert columns["image"] == [jpeg(1), jpeg(4)]
    assert columns["image/width"] == [20, 20]
    assert columns["label"] == [b"a", b"e"]
    assert refused == [
        (1, "decode", "photo: it is plain text, not an image"),
        (2, "read", f"{tmp_path / 'photos/3.jpg'}: no such file or directory"),
        (3, "read", "photo: there is no image"),
    ]
    elsewhere = table(
        write(tmp_path / "b.csv", "photo\n1.jpg\n"), image_column="photo", image_root=tmp_path / "photos", columns=[]
    )
    assert read_all(elsewhere)[0]["photo"] == [jpeg(1)]


def test_a_column_of_encoded_images_is_checked(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [jpeg(1), b"x", None], "n": [1, 2, 3]}), tmp_path / "a.parquet")
    columns, refused = read_all(table(tmp_path / "a.parquet", image_column="image", verify="headers"))
    assert columns["n"] == [1]
    assert [(r.row, r.stage) for r in refused] == [(1, "decode"), (2, "read")]
    with pytest.raises(MissingName, match="no column 'imge'; did you mean 'image'"):
        table(tmp_path / "a.parquet", image_column="imge")


def test_a_table_of_numbers_and_text_is_read_without_pandas(tmp_path: Path) -> None:
    made = pa.table({"x": [1, None, 3], "y": [1.5, 2.5, 3.5], "ok": [True, False, None], "t": list("abc")})
    pq.write_table(made, tmp_path / "a.parquet")
    program = (
        "import sys; from bushel.sources import table\n"
        f"source = table({str(tmp_path / 'a.parquet')!r})\n"
        "keys = source.list(0, ['t']).keys\n"
        "(block,) = source.read(0, None)\n"
        "values = [block.columns[name].values.tolist() for name in ('x', 'ok')]\n"
        "print(keys.to_list(), *values, 'pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[b'0', b'1', b'2'] [1, 3] [True, False] False\n"


def test_a_key_without_a_name_is_refused_as_any_other_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\n")
    with pytest.raises(MissingName, match="no column ''"):
        table(tmp_path / "t.csv", key="")


FLAT = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(-(10**20), 10**20)),
    min_size=1,
    max_size=8,
)


@given(rows=FLAT, ascii_only=st.booleans(), spaced=st.booleans())
def test_flat_json_is_read_as_any_parser_reads_it(rows: list[tuple[str, int]], ascii_only: bool, spaced: bool) -> None:
    separators = (" , ", "\t: ") if spaced else (",", ":")
    objects = [{"text": text, "n": number} for text, number in rows]
    lines = [json.dumps(one, ensure_ascii=ascii_only, separators=separators) for one in objects]
    found = _native.parse_flat_lines("\r\n".join(lines).encode())
    if any(len(str(abs(number))) > 18 for _, number in rows):
        assert found is None
        return
    (_, offsets, data), (_, none, numbers) = found[0]
    texts = [bytes(data[begin:end]).decode() for begin, end in itertools.pairwise(offsets)]
    assert [*zip(texts, numbers.tolist(), strict=True)] == rows
    assert none is None
    assert found[1] == len(rows)


def test_lines_that_are_not_flat_are_read_among_those_that_are(tmp_path: Path, small_blocks: None) -> None:
    lines = [{"text": f"row {i}", "n": i} for i in range(40)]
    lines[17] = {"n": 17, "text": "in another order"}
    lines[30] = {"text": None, "n": 30}
    source = table(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines))))
    columns, refused = read_all(source)
    assert columns["n"] == [row["n"] for row in lines]
    assert columns["text"][17] in (b"in another order", [b"in another order"])
    assert not refused


def test_parts_are_told_by_the_file_alone() -> None:
    assert surveys.part_bytes(1 << 20) == surveys.part_bytes(64 << 20) == 8 << 20  # small files are shared too
    assert surveys.part_bytes(2 << 30) == 32 << 20
    assert surveys.part_bytes(1 << 40) == 64 << 20


def test_a_column_of_encoded_images_is_one_of_images(tmp_path: Path) -> None:
    pictures = [encode_image(photo(number, 8, 9), "PNG") for number in range(3)]
    pq.write_table(pa.table({"picture": pictures, "code": [b"\0\1"] * 3}), tmp_path / "rows.parquet")
    schema = table(tmp_path / "rows.parquet").schema()
    assert (schema["picture"].describe(), schema["code"].describe()) == ("bytes (image)", "bytes")


def test_images_as_hugging_face_writes_them_to_parquet_are_found(tmp_path: Path) -> None:
    pictures = [encode_image(photo(number, 8, 9), "PNG") for number in range(3)]
    rows = [{"bytes": data, "path": None} for data in pictures]
    pq.write_table(pa.table({"image": rows, "label": [0, 1, 0]}), tmp_path / "train-00000-of-00001.parquet")
    source = table(tmp_path / "train-00000-of-00001.parquet")
    assert source.describe()["image_column"] == "image"
    columns, refused = read_all(source)
    assert columns["image"] == pictures
    assert (columns["image/height"], columns["image/width"], refused) == ([8] * 3, [9] * 3, [])


# What may stand in a row: values that are easy to mistake for one another, and such as need quotes.
ODD_VALUES = (
    *("", " ", "\t", "NA", "N/A", "null", "None", "NaN", "nan", "-nan", "<NA>", "#N/A", "null ", "nan(1)", "NAmibia"),
    *("true", "True", "tRue", "false", "true ", "inf", "-inf", "Infinity", "0", "1", "-1", "-0", "007", "+5", "0x1F"),
    *("9223372036854775807", "9223372036854775808", "1.5", "-0.0", "1.", ".5", "1e5", "1.5e-03", "1e20", "1e999"),
    *("123456789012345678.5", "2020-01-01", "12:30", "2020-01-01 12:30:00", "\u20ac5", "\u00a33", "5%", "5 EUR", "1,5"),
    *("1'000", "\u00e9", "\u65e5\u672c", "\u00a01", 'a"b', "two\nlines", "two\r\nlines", "x\0y", " x ", "1 ", " 1"),
)


def rows_of(rng: random.Random, delimiter: str, width: int) -> bytes:
    """Some rows, whose columns are mostly numbers or words."""
    pools = []
    for _ in range(width):
        plain = (
            [str(rng.randrange(-50, 50)) for _ in range(9)],
            [repr(rng.gauss(0, 1)) for _ in range(9)],
            ["red", "a b"],
        )
        pools.append([*rng.choice([*plain, rng.sample(ODD_VALUES, 2)]), *rng.sample(ODD_VALUES, rng.randrange(2))])
    rows = []
    for _ in range(rng.randrange(1, 20)):
        values = [rng.choice(pool) for pool in pools]
        is_quoted = [any(mark in value for mark in f'{delimiter}"\r\n') or rng.random() < 0.2 for value in values]
        quoted = ('"' + value.replace('"', '""') + '"' for value in values)
        rows.append(delimiter.join(q if is_one else v for q, v, is_one in zip(quoted, values, is_quoted, strict=True)))
        rows += [""] * (rng.random() < 0.05) + ["1" + delimiter * width] * (rng.random() < 0.01)
    return rng.choice(["\n", "\r\n"]).join([*rows, ""][: len(rows) + rng.randrange(2)]).encode()


def decoded(few: dict[str, Few]) -> dict[str, list[object]]:
    return {name: [one.values[code] if code >= 0 else None for code in one.codes] for name, one in few.items()}


def test_what_the_core_finds_in_rows_is_what_arrow_infers() -> None:
    taken = 0
    for seed in range(400):
        rng = random.Random(seed)
        delimiter, width = rng.choice(",;\t|"), rng.randrange(2, 5)
        text = rows_of(rng, delimiter, width)
        names = [f"c{place}" for place in range(width)]
        file = DelimitedFile(Path("rows.csv"), text=frozenset(names[:1] * (rng.random() < 0.1)))
        block = TextBlock(0, len(text), text)
        found = file._glance(names, delimiter, block)
        if found is None:
            continue
        taken += 1
        expected = file._infer(names, delimiter, Capture(names), block)
        assert found._replace(few={}) == expected._replace(few={}), text
        assert decoded(found.few) == decoded(expected.few), text
    assert taken > 50


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        ("a,b\n\ufeff1,2\n3,4\n", "int64"),  # as when files with byte order marks were joined
        ("a,b\n1.5,2\nNAN(1),4\n", "float32"),
    ],
)
def test_what_arrow_takes_for_a_number_is_one_for_the_core(tmp_path: Path, rows: str, dtype: str) -> None:
    assert table(write(tmp_path / "rows.csv", rows)).schema().features["a"].dtype == dtype


def test_a_delimiter_that_may_be_in_a_number_separates_values(tmp_path: Path) -> None:
    source = table(write(tmp_path / "rows.csv", "a-b\n3--5\n2-6\n"), delimiter="-")
    columns, refused = read_all(source)
    assert (columns, [one.row for one in refused]) == ({"a": [2], "b": [6]}, [0])
    assert listed(source, "b") == [None, 6]


def test_a_name_in_json_lines_that_is_not_utf8_is_reported_at_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", b'{"a": 1}\n{"\xc0": 1}\n')
    with pytest.raises(FileProblem, match="line 2: byte 0xc0 is not UTF-8"):
        table(path)


def test_what_the_core_finds_in_json_lines_is_what_arrow_infers() -> None:
    words = ["", "a", "\u00e9", 'q"', "two\nlines", "x" * 300]
    for seed in range(50):
        rng = random.Random(seed)
        rows = [{"n": rng.randrange(9), "t": rng.choice(words)} for _ in range(rng.randrange(1, 300))]
        text = "\n".join(json.dumps(row, ensure_ascii=seed % 2 == 0) for row in rows).encode()
        block = TextBlock(0, len(text), text)
        found = json_lines._glance(block)
        assert found is not None
        kinds, count, few, _ = JsonLinesFile(Path("rows.jsonl"))._infer(block)
        assert found[:2] == (True, text.count(b"\n"))
        assert found[2][:2] == (kinds, count)
        kept = decoded(found[2][2])
        assert kept == {name: values for name, values in decoded(few).items() if name in kept}
        assert "n" in kept
