"""SQLite, DB-API connections, Excel and HDF5; arrays that come apart into splits; Hugging Face, Polars, Arrow."""

import datetime
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gather import keys_of, listed, read_all
from making import digests

import bushel
from bushel import Run
from bushel.errors import FileProblem, MissingName, SchemaMismatch
from bushel.sources import arrays, excel, open_source, sql
from bushel.sources.opening import open_any

X, Y = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE flowers (id INTEGER, width REAL, name TEXT, label TEXT)")
        rows = [(n, n / 4, None if n % 5 == 0 else f"n{n}", "ab"[n % 2]) for n in range(3000)]
        connection.executemany("INSERT INTO flowers VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return tmp_path / "t.db"


def types(source: Any) -> dict[str, str]:
    schema = source.schema()
    return {name: schema[name].describe() for name in schema}


def test_the_only_table_of_sqlite_is_read(database: Path) -> None:
    source = open_source(database)
    assert types(source) == {"id": "int64", "width": "float32", "name": "str, optional", "label": "str"}
    columns, refused = read_all(source)
    assert (columns["width"][2], columns["name"][5], len(columns["id"]), refused) == (0.5, None, 3000, [])
    assert source.describe() == {"kind": "sql", "path": str(database), "query": 'SELECT * FROM "flowers"'}


def test_a_query_chooses_and_a_key_names(database: Path) -> None:
    source = open_source(database, query="SELECT id, label FROM flowers WHERE id < 4 ORDER BY id", key="id")
    assert keys_of(source) == ["0", "1", "2", "3"]
    assert listed(source, "label") == [b"a", b"b", b"a", b"b"]


def test_a_connection_is_read_by_its_query(database: Path) -> None:
    connection = sqlite3.connect(database)
    source = sql(connection, query="SELECT width FROM flowers LIMIT 3")
    assert read_all(source)[0]["width"] == [0.0, 0.25, 0.5]
    with pytest.raises(ValueError, match="query must be given"):
        sql(connection)
    with pytest.raises(ValueError, match="the query failed: no such table: bees"):
        sql(connection, query="SELECT * FROM bees").schema()
    connection.close()


def test_a_query_is_cut_into_parts_by_a_column_and_loses_no_row(database: Path) -> None:
    query = "SELECT id, width, label FROM flowers WHERE id % 3 > 0;"
    whole = read_all(sql(database, query=query, key="id"))[0]
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO flowers VALUES (NULL, 7.5, 'late', 'a')")
    connection.close()
    for parts, count in ((1, 1), (4, 4), (40, 40)):
        source = sql(database, query=query, part_by="id", parts=parts)
        assert source.partitions() == count
        columns, refused = read_all(source)
        assert (columns["id"], refused) == (whole["id"], [])
    source = sql(database, query="SELECT * FROM flowers", part_by="id", parts=4)
    columns, _ = read_all(source)
    assert len(columns["id"]) == 3001
    assert columns["id"].count(None) == 1
    assert [len(source.list(part, []).keys) for part in range(4)] == [751, 750, 750, 750]
    assert source.locate(1, 2) == f"{database}: row 753"
    with pytest.raises(ValueError, match="part_by must be a column of integers, got 'label', which holds 'a'"):
        sql(database, part_by="label")
    with pytest.raises(ValueError, match="the query failed: no such column: colour"):
        sql(database, part_by="colour")


def test_parts_of_a_query_are_built_alike_by_any_number_of_workers(database: Path) -> None:
    for workers in (1, 2):
        source = sql(database, part_by="id", parts=3)
        bushel.build(source, database.parent / str(workers), split="80/20", run=Run(workers=workers))
    assert digests(database.parent / "1") == digests(database.parent / "2")
    again = database.parent / "again"
    bushel.build_recipe(database.parent / "1" / "recipe.toml", again)
    assert digests(again) == digests(database.parent / "1")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_connection_and_a_function_that_connects_are_built_from(database: Path, workers: int) -> None:
    connection = sqlite3.connect(database)
    query = "SELECT * FROM flowers ORDER BY id"
    for number, asked in enumerate((connection, lambda: sqlite3.connect(database))):
        built = bushel.build(sql(asked, query=query), database.parent / f"out{number}", run=Run(workers=workers))
        assert (built.records, built.refused) == (3000, 0)
    connection.close()


def test_a_connection_of_adbc_is_read(database: Path) -> None:
    adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")
    with adbc.connect(str(database)) as connection:
        columns, refused = read_all(sql(connection, query="SELECT * FROM flowers", part_by="id", parts=3))
    assert refused == []
    assert columns == read_all(sql(database))[0]


def test_values_of_other_types_refuse_their_rows_and_no_others(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (a, b)")
        rows = [(n, f"t{n}") for n in range(2500)]
        rows[7], rows[1200], rows[2000] = ("seven", "t7"), (None, "t1200"), (2.5, 9)
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.close()
    source = sql(tmp_path / "t.db")
    assert types(source) == {"a": "float32, optional", "b": "str"}
    columns, refused = read_all(source)
    assert [(one.row, one.reason) for one in refused] == [
        (7, "a: expected float32, got str"),
        (2000, "b: expected str, got int64"),
    ]
    assert (len(columns["a"]), columns["a"][1199]) == (2498, None)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_without_rows_or_with_one(rows: int, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (a, label)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x")] * rows)
    connection.close()
    if rows:
        assert bushel.build(tmp_path / "t.db", tmp_path / "out").records == 1
    else:
        with pytest.raises(bushel.BushelError, match="the source has no samples"):
            bushel.build(tmp_path / "t.db", tmp_path / "out")


def test_several_tables_need_a_query(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "two.db") as connection:
        connection.execute("CREATE TABLE bees (x)")
        connection.execute("CREATE TABLE ants (x)")
    connection.close()
    with pytest.raises(FileProblem, match="has 2 tables: ants, bees"):
        open_source(tmp_path / "two.db")


def test_a_view_is_read_only_if_a_query_names_it(tmp_path: Path) -> None:
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute(f"CREATE VIEW endless AS {numbers}")
        with pytest.raises(FileProblem, match="has 0 tables") as caught:
            open_source(tmp_path / "t.db")
        assert 'query="SELECT * FROM endless"' in str(caught.value)
        connection.execute('CREATE TABLE "odd""name" (x)')
        connection.execute('INSERT INTO "odd""name" VALUES (7)')
    connection.close()
    assert read_all(open_source(tmp_path / "t.db"))[0]["x"] == [7]
    chosen = sql(tmp_path / "t.db", query="SELECT * FROM endless LIMIT 3")
    assert read_all(chosen)[0]["x"] == [1, 2, 3]


@pytest.mark.parametrize("way", ["external", "virtual"])
def test_hdf5_takes_no_values_from_files_elsewhere(tmp_path: Path, way: str) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_bytes(np.arange(9.0).tobytes())
    for folder in (tmp_path, tmp_path / "data"):
        with h5py.File(folder / "other.h5", "w") as file:
            file["y"] = np.arange(9.0)
    named = {"external": "../secret", "virtual": "../other.h5"}[way]
    with h5py.File(tmp_path / "data" / "x.h5", "w") as file:
        file["a"] = np.arange(9.0)
        if way == "external":
            file.create_dataset("b", (9,), "f8", external=[(named, 0, 72)])
        else:
            for name, place in (("b", named), ("near", "other.h5")):
                layout = h5py.VirtualLayout((9,), "f8")
                layout[:] = h5py.VirtualSource(place, "y", (9,))
                file.create_virtual_dataset(name, layout)
    with pytest.raises(FileProblem, match=f"'b' takes its values from another file, '{named}'"):
        bushel.build(tmp_path / "data" / "x.h5", tmp_path / "out", run=Run(workers=1))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_from_sqlite_is_the_same_for_any_number_of_workers(database: Path, workers: int) -> None:
    out = database.parent / "out"
    built = bushel.build(database, out, split="80/20", run=Run(workers=workers, overwrite=True))
    assert built.refused == 0
    first = digests(out)
    bushel.build_recipe(out / "recipe.toml", database.parent / "again", run=Run(workers=3 - workers))
    assert digests(database.parent / "again") == first
    assert bushel.plan(str(database)).samples == 3000


def test_a_sheet_of_excel_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", "when", "label", None])
    for number in range(3):
        book.active.append([number * 1.5, datetime.date(2024, 1, 1 + number), " xy"[number], number])
    book.active.append([None, None, None])
    book.create_sheet("second").append(["b"])
    book["second"].append([7])
    book.save(tmp_path / "book.xlsx")
    source = open_source(tmp_path / "book.xlsx")
    assert types(source) == {"a": "float32", "when": "date", "label": "str, optional", "column3": "int64"}
    columns, _ = read_all(source)
    assert columns["when"][:2] == [1_704_067_200_000_000, 1_704_153_600_000_000]
    assert columns["label"] == [None, b"x", b"y"]
    assert read_all(excel(tmp_path / "book.xlsx", sheet="second"))[0] == {"b": [7]}
    with pytest.raises(MissingName, match="no sheet 'secnd'; did you mean 'second'"):
        excel(tmp_path / "book.xlsx", sheet="secnd").schema()


def test_sheets_and_columns_of_excel_that_are_not_read_are_counted(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["a", "twice"], [1, "=2*A2"], [2, "=2*A3"]):  # formulas that Excel has not computed
        book.active.append(row)
    book.create_sheet("second").append(["b"])
    book.save(tmp_path / "book.xlsx")
    assert open_source(tmp_path / "book.xlsx").list(0, []).counted == {
        "column without a value, left out: twice (formulas have values once Excel has saved them)": 1,
        "other sheet, not read: second (--set sheet=NAME)": 1,
    }
    assert "second" not in str(excel(tmp_path / "book.xlsx", sheet="Sheet").list(0, []).counted)


def changed_sheet(folder: Path, *changes: tuple[bytes, bytes]) -> Path:
    """A small Excel file in which bytes of its sheet are others."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["x", "label"], *([n, "a"] for n in range(5))):
        book.active.append(row)
    book.save(folder / "whole.xlsx")
    with zipfile.ZipFile(folder / "whole.xlsx") as whole, zipfile.ZipFile(folder / "t.xlsx", "w") as archive:
        for name in whole.namelist():
            data = whole.read(name)
            for old, new in changes if name.endswith("sheet1.xml") else ():
                assert old in data
                data = data.replace(old, new)
            archive.writestr(name, data)
    return folder / "t.xlsx"


def test_a_sheet_that_claims_to_be_endless_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = changed_sheet(
        tmp_path, (b"A1:B6", b"A1:XFD1048576"), (b'r="6"', b'r="9000"'), (b'"A6"', b'"A9000"'), (b'"B6"', b'"C9000"')
    )
    columns, _ = read_all(excel(path))
    assert columns["x"] == [0, 1, 2, 3, 4]
    assert columns["column2"][4] in ("a", b"a")


@pytest.mark.parametrize("entity", ['"&b;"><!ENTITY b "x"', 'SYSTEM "file:///etc/hostname"'])
def test_entities_in_a_sheet_are_refused_in_one_line(tmp_path: Path, entity: str) -> None:
    top = f"<!DOCTYPE x [<!ENTITY a {entity}>]><worksheet".encode()
    path = changed_sheet(tmp_path, (b"<worksheet", top), (b"<v>0</v>", b"<v>&a;</v>"))
    with pytest.raises(FileProblem, match="cannot be read as an Excel file"):
        excel(path).schema()


def test_a_file_that_is_no_excel_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / "x.xlsx").write_text("no")
    with pytest.raises(FileProblem, match="cannot be read as an Excel file"):
        excel(tmp_path / "x.xlsx").schema()


@pytest.mark.parametrize("form", ["npz", "dict", "pairs", "hdf5", "groups of hdf5"])
def test_arrays_named_after_splits_are_one_dataset(tmp_path: Path, form: str) -> None:
    named = {"x_train": X, "y_train": Y, "x_test": X[:20], "y_test": Y[:20]}
    given: Any = named
    if form == "npz":
        np.savez_compressed(tmp_path / "mnist.npz", **named)
        given = tmp_path / "mnist.npz"
    elif form == "pairs":
        given = ((X, Y[:, None]), (X[:20], Y[:20, None]))
    elif "hdf5" in form:
        with pytest.importorskip("h5py").File(tmp_path / "mnist.h5", "w") as file:
            for name, array in named.items():
                place = name if form == "hdf5" else "/".join(reversed(name.split("_")))  # train/x
                file.create_dataset(place, data=array, compression="gzip" if name == "x_test" else None)
        given = tmp_path / "mnist.h5"
    built = bushel.build(given, tmp_path / "out", order="source")
    assert {name: split.records for name, split in built.manifest.splits.items()} == {"train": 60, "test": 20}
    assert {name: f.describe() for name, f in built.manifest.schema.features.items()} == {
        "label": "int64",
        "x": "uint8[8,8] (raw)",
    }
    np.testing.assert_array_equal(bushel.open(tmp_path / "out")["test"][:]["x"], X[:20])


def test_splits_of_different_arrays_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="splits must have the same arrays"):
        arrays({"x_train": X, "y_train": Y, "x_test": X})
    assert list(arrays({"x_train": X, "y_train": Y}).schema()) == ["x_train", "y_train"]  # one split is none


def test_a_bunch_keeps_its_class_names(tmp_path: Path) -> None:
    load_iris = pytest.importorskip("sklearn.datasets").load_iris
    for as_frame in (False, True):
        built = bushel.build(load_iris(as_frame=as_frame), tmp_path / str(as_frame))
        assert built.manifest.label is not None
        assert built.manifest.label.names == ["setosa", "versicolor", "virginica"]


def test_tables_of_arrow_and_polars_are_read() -> None:
    table = pa.table({"a": [1, 2, None], "l": [[1, 2], [3], []], "o": [{"q": "x"}] * 3})
    assert types(arrays(table)) == {"a": "int64, optional", "l": "int64[?]", "o/q": "str"}
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.5, None], "label": ["x", "y"]})
    for given in (frame, frame.lazy()):
        assert read_all(open_any(given))[0] == {"a": [1.5, None], "label": [b"x", b"y"]}


def test_datasets_of_hugging_face_are_read_with_class_names_and_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    data = datasets.Dataset.from_dict({"text": ["a", "b", "c"] * 5, "label": [0, 1, 0] * 5}, features=features)
    one = bushel.build(data, tmp_path / "one")
    assert one.manifest.label is not None
    assert (one.records, one.manifest.label.names) == (15, ["neg", "pos"])
    both = bushel.build(datasets.DatasetDict({"train": data, "test": data.select(range(3))}), tmp_path / "both")
    assert {name: split.records for name, split in both.manifest.splits.items()} == {"train": 15, "test": 3}
