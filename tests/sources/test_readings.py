"""What columns are read as: marks for missing values, and one type for the whole column."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from gather import read_all

import bushel
from bushel import sources
from bushel.cli import cli

ROWS = [("a", "1"), ("b", "?"), ("c", "2.5"), ("d", "n/a")]


def write_csv(folder: Path, rows: Any = ROWS) -> Path:
    path = folder / "t.csv"
    path.write_text("name,x\n" + "".join(f"{name},{x}\n" for name, x in rows))
    return path


def write_json(folder: Path) -> Path:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps({"name": name, "x": x}) + "\n" for name, x in ROWS))
    return path


def write_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"name": [name for name, _ in ROWS], "x": [x for _, x in ROWS]}), folder / "t.parquet")
    return folder / "t.parquet"


def write_excel(folder: Path) -> Path:
    rows = [(name, x if x in "?n/a" else float(x)) for name, x in ROWS]
    pd.DataFrame(rows, columns=["name", "x"]).to_excel(folder / "t.xlsx", index=False)
    return folder / "t.xlsx"


def frame(_: Path) -> Any:
    return pd.DataFrame(ROWS, columns=["name", "x"])


def mixed_frame(_: Path) -> Any:
    return pd.DataFrame([("a", 1), ("b", "?"), ("c", 2.5), ("d", "n/a")], columns=["name", "x"])


WAYS = [write_csv, write_json, write_parquet, write_excel, frame, mixed_frame]


def opened(given: Any, **options: Any) -> Any:
    if isinstance(given, Path):
        return sources.open_source(given, **options)
    return sources.arrays(given, **options)


@pytest.mark.parametrize("make", WAYS)
def test_usual_marks_are_missing_where_the_rest_is_numbers(make: Any, tmp_path: Path) -> None:
    source = opened(make(tmp_path))
    assert source.schema()["x"].describe() == "float32, optional"
    assert read_all(source) == ({"name": [b"a", b"b", b"c", b"d"], "x": [1, None, 2.5, None]}, [])
    assert source.list(0, []).counted == {
        "values '?', 'n/a' of 'x' taken for missing: the others are numbers (--type x=str keeps the text)": 2
    }


@pytest.mark.parametrize("make", WAYS)
def test_a_type_of_text_keeps_the_marks(make: Any, tmp_path: Path) -> None:
    source = opened(make(tmp_path), types={"x": "str"})
    assert [text.decode() for text in read_all(source)[0]["x"]][1::2] == ["?", "n/a"]
    assert source.list(0, []).counted == {} or make is mixed_frame


@pytest.mark.parametrize("make", WAYS)
def test_values_that_were_asked_for_are_missing_in_every_column_and_no_others(make: Any, tmp_path: Path) -> None:
    columns, refused = read_all(opened(make(tmp_path), missing_values=["?", "d"]))
    assert (columns["name"], refused) == ([b"a", b"b", b"c", None], [])
    assert columns["x"] == [b"1", None, b"2.5", b"n/a"]


def test_numbers_that_mean_missing_are_compared_as_numbers(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [("a", "-999"), ("b", "-999.0"), ("c", "3.5")])
    source = opened(path, missing_values=["-999"])
    assert read_all(source)[0]["x"] == [None, None, 3.5]
    assert source.list(0, []).counted == {"values of 'x' that mean missing, as asked": 2}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["01234", "?", "02345"], [b"01234", b"?", b"02345"]),  # codes
        (["?", "-", "?"], [b"?", b"-", b"?"]),  # no number
        (["1", "?", "two"], [b"1", b"?", b"two"]),
        (["1", "unknown", "2"], [b"1", b"unknown", b"2"]),  # which may be a class
        (['"1,234"', "-", '"2,000"'], [1234, None, 2000]),
        (["1", "-", "-2"], [1, None, -2]),
        (["1e3", ".", ".5"], [1000, None, 0.5]),
    ],
)
def test_a_column_is_read_as_numbers_only_if_all_else_are_marks(
    values: list[str], wanted: list[Any], tmp_path: Path
) -> None:
    assert read_all(opened(write_csv(tmp_path, [("n", value) for value in values])))[0]["x"] == wanted


def test_a_mark_far_from_the_first_rows_and_in_another_file_is_found(tmp_path: Path) -> None:
    write_csv(tmp_path, [("n", str(number)) for number in range(200_000)] + [("n", "?")])
    (tmp_path / "u.csv").write_text("name,x\nm,1.5\n")
    source = sources.table([tmp_path / "t.csv", tmp_path / "u.csv"])
    columns, refused = read_all(source)
    assert (columns["x"][199_999:], refused) == ([199_999, None, 1.5], [])


def test_a_stated_type_of_numbers_takes_usual_marks_for_missing_and_refuses_the_rest(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [("a", "1"), ("b", "?"), ("c", "two")])
    columns, refused = read_all(opened(path, types={"x": "float32"}))
    assert columns["x"] == [1, None]
    assert [(one.row, one.reason) for one in refused] == [(2, "x: 'two' is not a number")]


def test_a_key_keeps_its_marks(tmp_path: Path) -> None:
    source = opened(write_csv(tmp_path, [("a", "1"), ("b", "?")]), key="x")
    assert source.list(0, []).keys.to_list() == [b"1", b"?"]


def test_the_recipe_of_a_build_keeps_what_means_missing(tmp_path: Path) -> None:
    path = write_csv(tmp_path)
    done = CliRunner().invoke(cli, ["build", str(path), str(tmp_path / "out"), "--missing", "?, n/a"])
    assert done.exit_code == 0, done.output
    assert bushel.open(tmp_path / "out").manifest.recipe["source"]["missing_values"] == ["?", "n/a"]
    again = CliRunner().invoke(cli, ["build", str(tmp_path / "out" / "recipe.toml"), str(tmp_path / "again")])
    assert again.exit_code == 0, again.output
    digests = [bushel.open(tmp_path / name).manifest.splits["train"].shards[0].digest for name in ("out", "again")]
    assert digests[0] == digests[1]


def test_cells_of_several_kinds_are_text_wherever_they_stand(tmp_path: Path) -> None:
    tickets = [113781 + row if row % 3 else f"PC {row}" for row in range(1309)]
    pd.DataFrame({"ticket": tickets, "when": pd.Timestamp("2024-01-02")}).to_excel(tmp_path / "t.xlsx", index=False)
    source = sources.excel(tmp_path / "t.xlsx")
    columns, refused = read_all(source)
    assert refused == []
    assert columns["ticket"] == [str(ticket).encode() for ticket in tickets]
    (note,) = (note for note in source.list(0, []).counted if "ticket" in note)
    assert source.list(0, []).counted[note] == 872
    asked, refused = read_all(sources.excel(tmp_path / "t.xlsx", types={"ticket": "int64"}))
    assert (len(asked["ticket"]), len(refused)) == (872, 437)


MIDNIGHT = 1_577_923_200_000_000  # 2020-01-02


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (["2020-01-02", "2020-01-03"], [0, 24]),
        (["2020-01-02T03:00:00Z", "2020-01-02T03:00:00+02:00"], [3, 1]),
        (["2020/1/2", "2020/01/02 5:00"], [0, 5]),
        (["2.1.2020", "13.1.2020"], [0, 11 * 24]),
        (["02/01/2020", "13/01/2020"], [0, 11 * 24]),
        (["1/2/20", "1/13/20"], [0, 11 * 24]),
        (["Jan 2 2020", "January 3, 2020"], [0, 24]),
        (["2-Jan-20", "3-Jan-20"], [0, 24]),
        (["Thu, 02 Jan 2020 10:00:00 GMT", "3 January 2020"], [10, 24]),
        (["2020-01-02", "?"], [0, None]),
    ],
)
def test_a_column_in_one_usual_notation_holds_dates(written: list[str], wanted: list[Any], tmp_path: Path) -> None:
    source = opened(write_csv(tmp_path, [(f'"{text}"', number) for number, text in enumerate(written)]))
    hours = [None if hour is None else MIDNIGHT + hour * 3_600_000_000 for hour in wanted]
    assert read_all(source)[0]["name"] == hours
    assert source.schema()["name"].meaning == "date"


@pytest.mark.parametrize(
    "written",
    [
        ["2020-02-30", "2020-01-01"],  # no such day
        ["3.11.12", "3.11.13"],  # versions
        ["2020-01-02", "soon"],
        ["12:30", "13:45"],
        ["Marble 1 2000", "March 2 2000"],
        ["2020-01", "2020-02"],
    ],
)
def test_what_is_not_all_dates_stays_text(written: list[str], tmp_path: Path) -> None:
    source = opened(write_csv(tmp_path, [(text, 1) for text in written]))
    assert read_all(source)[0]["name"] == [text.encode() for text in written]


def test_dates_that_may_have_the_day_or_the_month_first_stay_text_and_both_types_are_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [("1/2/2020", 1), ("3/4/2020", 2)])
    (note,) = opened(path).list(0, []).counted
    assert "--type name=date:dmy or date:mdy" in note
    hours = {form: read_all(opened(path, types={"name": f"date:{form}"}))[0]["name"][0] for form in ("dmy", "mdy")}
    assert hours["mdy"] == MIDNIGHT
    assert hours["dmy"] == MIDNIGHT + 30 * 86_400_000_000
    with pytest.raises(ValueError, match=r"types\['name'\] must be date:dmy or date:mdy"):
        opened(path, types={"name": "date"})


def test_a_stated_type_of_dates_refuses_what_is_none_and_takes_numbers_by_their_unit(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [("2020-01-02", "1577923200"), ("soon", "0")])
    columns, refused = read_all(opened(path, types={"name": "date", "x": "date:s"}))
    assert columns == {"name": [MIDNIGHT], "x": [MIDNIGHT]}
    assert [(one.row, one.reason) for one in refused] == [(1, "name: 'soon' is not a date like the others")]
    with pytest.raises(ValueError, match="must be one of date:s, date:ms, date:us"):
        opened(path, types={"x": "date"})


@pytest.mark.parametrize("kind", ["frame", "zoned frame", "polars", "parquet", "excel", "numpy"])
def test_dates_of_typed_tables_are_dates(kind: str, tmp_path: Path) -> None:
    stamps = pd.Series(pd.to_datetime(["2020-01-02 00:00", "2020-01-02 05:00"]))
    table = pd.DataFrame({"day": stamps.dt.tz_localize("Europe/Berlin") if kind == "zoned frame" else stamps})
    given: Any = table
    if kind == "polars":
        given = pytest.importorskip("polars").DataFrame({"day": stamps.dt.to_pydatetime().tolist()})
    elif kind == "numpy":
        given = {"day": stamps.to_numpy()}
    elif kind == "parquet":
        table.to_parquet(given := tmp_path / "t.parquet")
    elif kind == "excel":
        table.to_excel(given := tmp_path / "t.xlsx", index=False)
    source = opened(given)
    earlier = 3_600_000_000 * (kind == "zoned frame")
    assert read_all(source)[0]["day"] == [MIDNIGHT - earlier, MIDNIGHT + 18_000_000_000 - earlier]
    assert source.schema()["day"].describe() == "date"
    assert opened(given, types={"day": "str"}).schema()["day"].describe() == "str"


def test_a_list_in_a_cell_is_a_list_and_several_labels(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('tags,n,label\n"[""a"", ""b""]",[1],"[\'x\']"\n[],"[2, 3]","[\'x\', \'y\']"\n')
    source = opened(tmp_path / "t.csv")
    assert read_all(source)[0] == {"tags": [[b"a", b"b"], []], "n": [[1], [2, 3]], "label": [[b"x"], [b"x", b"y"]]}
    bushel.build(source, tmp_path / "out")
    label = bushel.open(tmp_path / "out").manifest.label
    assert label is not None
    assert (label.task, label.names) == ("multi_label", ["x", "y"])


def test_json_values_of_several_kinds_are_text_and_bad_rows_are_refused_alone(tmp_path: Path) -> None:
    rows = [
        "[1]",
        '{"film": "Alien", "l": [1], "deep": [[1], [2, 3]], "n": 1}',
        '{"film": 300, "l": [18446744073709551615], "deep": [], "n": 2}',
        '{"film": "Brazil", "film": "Up"}',
        "null",
        '{"film": 1.50, "l": [], "deep": null, "n": "?"}',
        '{"film": true, "l": ["x"], "deep": [[4]], "n": 3}',
        '{"film": 300, "l": [5], "deep": [[4]], "n": 4.5}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows) + "\n")
    source = opened(tmp_path / "t.jsonl")
    columns, refused = read_all(source)
    assert columns == {
        "film": [b"Alien", b"1.50", b"300"],
        "l": [[1], [], [5]],
        "deep": [b"[[1], [2, 3]]", None, b"[[4]]"],
        "n": [1, None, 4.5],
    }
    assert [(one.row, one.reason) for one in refused] == [
        (0, "the line is not a JSON object but list"),
        (2, "l: 18446744073709551615 does not fit int64"),
        (3, "the name 'film' occurs twice in one object"),
        (4, "the line is not a JSON object but null"),
        (6, "l: expected number, got str"),
    ]
    assert [note.partition(" kept")[0] for note in source.list(0, []).counted] == [
        "values of 'film' that are not text,",
        "values of 'deep'",
        "value '?' of 'n' taken for missing: the others are numbers (--type n=str keeps the text)",
    ]


def test_the_kind_of_json_lists_does_not_follow_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"l": ["x"]}\n' + '{"l": [1]}\n' * 3)
    columns, refused = read_all(opened(tmp_path / "t.jsonl"))
    assert (columns, [one.row for one in refused]) == ({"l": [[1], [1], [1]]}, [0])


def test_maps_of_parquet_are_json_text(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": maps, "x": [1, 2]}), tmp_path / "t.parquet")
    assert read_all(opened(tmp_path / "t.parquet"))[0] == {"m": [b'{"a": 1}', None], "x": [1, 2]}
