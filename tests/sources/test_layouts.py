"""Tables as people have them: without names, with decimal commas, comments, blanks between values; JSON arrays."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from gather import listed, read_all

from bushel.errors import FileProblem
from bushel.sources import open_source, table, text_files
from bushel.sources.tables.json_lines import _cut_elements

IRIS = "5.1,3.5,1.4,0.2,Iris-setosa\n4.9,3.0,1.4,0.2,Iris-setosa\n7.0,3.2,4.7,1.4,Iris-versicolor\n"


def opened(tmp_path: Path, text: str, name: str = "rows.csv", **options: Any) -> Any:
    (tmp_path / name).write_text(text)
    return table(tmp_path / name, **options)


def types(source: Any) -> dict[str, str]:
    schema = source.schema()
    return {name: schema[name].describe() for name in schema}


def values(source: Any) -> dict[str, Any]:
    columns, refused = read_all(source)
    assert refused == []
    return columns


def counted(source: Any) -> dict[str, int]:
    return dict(source.list(0, []).counted)


@pytest.mark.parametrize("name", ["iris.csv", "iris.data", "iris"])
def test_a_file_without_names_keeps_its_first_row(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(IRIS)
    source = open_source(tmp_path / name)
    columns = values(source)
    assert columns["column0"] == [5.1, 4.9, 7.0]
    assert columns["column4"] == [b"Iris-setosa", b"Iris-setosa", b"Iris-versicolor"]
    assert counted(source) == {"file without a row of names, whose columns are named column0, column1, column2, ...": 1}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("p,x,p\ne,x,a\np,b,p\n", ["column0", "column1", "column2"]),  # categories that come again
        ("5,0,0\n3,0,7\n", ["column0", "column1", "column2"]),  # pixels: the same number twice
        ("ham\tGo until jurong point, crazy\nspam\tFree entry in 2\nham\tOk\n", ["column0", "column1"]),
        ("# a,b\n1.5,2.5\n2.5,3.5\n", ["a", "b"]),  # as numpy.savetxt writes it
        ("country,2019,2020\nFrance,1,2\nSpain,3,4\n", ["country", "2019", "2020"]),  # years are names
        ("0,1,2\n1.5,2,3\n2.5,3,4\n", ["0", "1", "2"]),  # as pandas numbers columns
        ("x\n1\n2\n", ["x"]),
        ("0\n1\n2\n0\n", ["column0"]),  # whole numbers, the first of which is 0
        ("0\n1.5\n2.5\n", ["0"]),  # as pandas names an only column
        ("cat\ndog\ncat\n", ["column0"]),
        ("name,city\nAnn,Rome\nBob,Oslo\n", ["name", "city"]),
        ("full name\nJohn Smith\nMary Jones\n", ["full name"]),
    ],
)
def test_names_are_told_from_values(tmp_path: Path, text: str, names: list[str]) -> None:
    assert list(opened(tmp_path, text).schema()) == names


def test_header_and_names_overrule_what_is_found(tmp_path: Path) -> None:
    spam = "spam,win now\nham,see you\n"
    source = opened(tmp_path, spam, header=False, names=["label", "text"])
    assert values(source) == {"label": [b"spam", b"ham"], "text": [b"win now", b"see you"]}
    assert list(table(tmp_path / "rows.csv", names=["label", "text"]).schema()) == ["label", "text"]
    assert values(opened(tmp_path, "1,2\n3,4\n", header=True)) == {"1": [3], "2": [4]}
    with pytest.raises(FileProblem, match="has 2 columns, and names gives 3"):
        table(tmp_path / "rows.csv", names=["a", "b", "c"])


def test_decimal_commas_and_thousands_are_found(tmp_path: Path) -> None:
    german = opened(tmp_path, "city;people;area\nBerlin;3.664.088;891,12\nMini;800;1,5\nOld;;\n")
    assert types(german) == {"city": "str", "people": "int64, optional", "area": "float32, optional"}
    assert values(german)["people"] == [3664088, 800, None]
    assert values(german)["area"] == [891.12, 1.5, None]
    american = opened(tmp_path, 'city,people,area\nNY,"8,336,817",302.6\nLA,"3,979,576","1,468.7"\n')
    assert values(american) == {"city": [b"NY", b"LA"], "people": [8336817, 3979576], "area": [302.6, 1468.7]}


def test_decimal_says_what_1_234_is(tmp_path: Path) -> None:
    text = "a;b\n1.234;x\n5.678;y\n"
    assert values(opened(tmp_path, text))["a"] == [1.234, 5.678]
    assert values(opened(tmp_path, text, decimal=","))["a"] == [1234, 5678]
    text = "a;b\n1,234;x\n5,678;y\n"
    assert values(opened(tmp_path, text))["a"] == [1.234, 5.678]
    assert values(opened(tmp_path, text, decimal="."))["a"] == [1234, 5678]


def test_numbers_that_only_look_grouped_stay_text(tmp_path: Path) -> None:
    source = opened(tmp_path, "ip,phone\n10.123.245.111,555 123 456\n10.100.200.100,555 223 456\n")
    assert types(source) == {"ip": "str", "phone": "str"}


def test_the_style_of_numbers_is_that_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(text_files.TextFile.blocks, "__defaults__", (0, None, 64))
    rows = [f"{n};{n},5" for n in range(50)]
    source = opened(tmp_path, "\n".join(["n;x", *rows, "60;7", "61;n/a"]) + "\n")
    assert types(source) == {"n": "int64", "x": "float32, optional"}
    assert values(source)["x"] == [*(n + 0.5 for n in range(50)), 7.0, None]
    mixed = opened(tmp_path, "\n".join(["n;x", *rows, "60;one"]) + "\n")
    assert types(mixed)["x"] == "str"


def test_lines_before_the_names_are_no_rows(tmp_path: Path) -> None:
    assert values(opened(tmp_path, "sep=;\nname;x\nA;1.5\n")) == {"name": [b"A"], "x": [1.5]}
    assert values(opened(tmp_path, "# sensor 3\n#\n\nt,x\n1,2\n2,3\n")) == {"t": [1, 2], "x": [2, 3]}


def test_blanks_stand_between_values(tmp_path: Path) -> None:
    text = 'a   b    c\n1   2.5  x\n 2  3.5  "y z"\n10  4.5\tz \n'
    assert values(opened(tmp_path, text)) == {"a": [1, 2, 10], "b": [2.5, 3.5, 4.5], "c": [b"x", b"y z", b"z"]}
    housing = " 0.00632  18.00   2.310\n 0.02731   0.00   7.070\n"
    (tmp_path / "housing.data").write_text(housing)
    assert values(open_source(tmp_path / "housing.data"))["column1"] == [18.0, 0.0]


def test_values_are_stripped_as_names_are(tmp_path: Path) -> None:
    source = opened(tmp_path, "a, label\n1, cat\n2, dog\n3,cat \n4,  \n")
    assert listed(source, "label") == [b"cat", b"dog", b"cat", None]
    assert values(source)["label"] == [b"cat", b"dog", b"cat", None]


def test_the_index_of_pandas_is_left_out_and_reported(tmp_path: Path) -> None:
    for first in ("", "Unnamed: 0"):
        source = opened(tmp_path, f"{first},a,b\n0,1,x\n1,2,y\n2,3,z\n")
        assert list(source.schema()) == ["a", "b"]
        assert counted(source) == {"column without a name that counts the rows, left out": 1}
        keyed = table(tmp_path / "rows.csv", key="index")
        assert [key.decode() for key in keyed.list(0, []).keys] == ["0", "1", "2"]
    genes = opened(tmp_path, ",s1,s2\nBRCA,1,2\nTP53,3,4\n")
    assert list(genes.schema()) == ["column0", "s1", "s2"]


def test_amounts_and_percentages_are_numbers_if_asked(tmp_path: Path) -> None:
    text = 'price,rate\n"$1,200.50",5%\n$3.10,7.5 %\n'
    source = opened(tmp_path, text)
    assert types(source) == {"price": "str", "rate": "str"}
    assert list(counted(source).values()) == [2, 2]
    assert "with signs of money or percent, as text (numbers: --type price=float32)" in next(iter(counted(source)))
    asked = opened(tmp_path, text, types={"price": "float32", "rate": "float32"})
    assert values(asked) == {"price": [1200.5, 3.1], "rate": [5.0, 7.5]}
    assert counted(asked) == {}


ROWS = [{"a": n, "s": 'x"[,]{}\\' * (n % 5), "o": {"k": "}]", "l": [n, 2]}} for n in range(500)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_json_array_is_read_like_json_lines(tmp_path: Path, indent: int | None, suffix: str) -> None:
    text = json.dumps(ROWS, indent=indent).encode()
    (tmp_path / f"rows{suffix}").write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    source, lines = open_source(tmp_path / f"rows{suffix}"), open_source(tmp_path / "lines.jsonl")
    assert types(source) == types(lines)
    assert values(source) == values(lines)


def test_an_array_is_cut_after_whole_elements_wherever_a_block_ends() -> None:
    text = json.dumps(ROWS[:8], indent=1).encode()
    for end in range(len(text)):
        cut = _cut_elements(text[:end])
        assert cut <= end
        json.loads(text[:cut].rstrip(b",") + b"]" if cut else b"[]")


def test_an_array_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="is a JSON array, but not one of objects"):
        opened(tmp_path, "[1, 2]", "rows.json")


def test_types_take_json_of_mixed_types_as_text(tmp_path: Path) -> None:
    text = '{"a":1,"l":"x"}\n{"a":"two","l":"y"}\n{"a":1.50,"l":"x"}\n{"a":[1, 2]}\n{"a":null,"l":"x"}\n'
    source = opened(tmp_path, text, "rows.jsonl", types={"a": "str"})
    assert types(source) == {"a": "str, optional", "l": "str, optional"}
    assert values(source)["a"] == [b"1", b"two", b"1.50", b"[1, 2]", None]


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"a": {"0": 1, "1": 2}, "label": {"0": "x", "1": "y"}}, "is one JSON object of columns, not an array of rows"),
        ({"a": [1, 2], "label": ["x", "y"]}, "is one JSON object of columns, not an array of rows"),
        ({"count": 2, "data": [{"a": 1}, {"a": 2}]}, "is one JSON object, whose 'data' holds rows"),
    ],
)
def test_one_json_object_of_columns_or_rows_is_not_taken_for_a_sample(
    tmp_path: Path, held: dict[str, Any], message: str
) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(held))
    with pytest.raises(FileProblem, match=rf"rows\.json: {message}\n  \S"):
        open_source(tmp_path / "rows.json").schema()
