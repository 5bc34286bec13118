"""Selecting records: by a condition, in order, at random, changed, and as tables."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel import BushelError
from bushel.reading.dataset import Split
from bushel.reading.expressions import ExpressionError, parse

CITIES = ("Bern", "Basel", "Genf", "Zürich")
ROWS = [
    {"age": None if n % 7 == 0 else n, "city": CITIES[n % 4], "size": n / 8, "label": ("cat", "dog", "owl")[n % 3]}
    for n in range(200)
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Split:
    folder = tmp_path_factory.mktemp("select")
    known = [{name: value for name, value in row.items() if value is not None} for row in ROWS]
    samples = [{**row, "tokens": [1] * (number % 5)} for number, row in enumerate(known)]
    bushel.build(samples, folder / "out", order="source")
    return bushel.open(folder / "out")["train"]


def numbers(split: Split) -> list[int]:
    return [] if not len(split) else [round(8 * size) for size in split.values("size").tolist()]


@pytest.mark.parametrize(
    ("condition", "meets"),
    [
        ("age > 150", lambda r: r["age"] is not None and r["age"] > 150),
        ("age is missing", lambda r: r["age"] is None),
        ("age is not missing and size <= 2", lambda r: r["age"] is not None and r["size"] <= 2),
        ("label == 'cat'", lambda r: r["label"] == "cat"),
        ("label != 'cat' and city == \"Zürich\"", lambda r: r["label"] != "cat" and r["city"] == "Zürich"),
        ("label in ['dog', 'owl'] or city in ('Genf')", lambda r: r["label"] != "cat" or r["city"] == "Genf"),
        ("not (city not in ['Bern']) and 2 * size - 1 >= 3.5", lambda r: r["city"] == "Bern" and 2 * r["size"] >= 4.5),
        ("city < 'Bern'", lambda r: r["city"] == "Basel"),
        ("age % 2 == 1 and size / 2 > 1e1", lambda r: r["age"] is not None and r["age"] % 2 == 1 and r["size"] > 20),
        ("-size < -20", lambda r: r["size"] > 20),
        ("not (age > 100)", lambda r: r["age"] is None or r["age"] <= 100),
        ("1 < 2", lambda _: True),
        ("`size` == 3.5", lambda r: r["size"] == 3.5),
        ("size > 1 and size < 2 or size > 24 and size < 25", lambda r: 1 < r["size"] < 2 or 24 < r["size"] < 25),
    ],
)
def test_a_condition_chooses_what_python_would(rows: Split, condition: str, meets: Any) -> None:
    assert numbers(rows.filter(condition)) == [n for n, row in enumerate(ROWS) if meets(row)]


def test_the_length_of_a_list_can_be_compared(rows: Split) -> None:
    assert numbers(rows.filter("length(tokens) >= 3")) == [n for n in range(200) if n % 5 >= 3]


@pytest.mark.parametrize(
    ("condition", "position", "what"),
    [
        ("ages > 3", 1, "there is no feature 'ages'; did you mean 'age'?"),
        ("age > 3 & size > 1", 9, "'&' is not understood; write 'and'"),
        ("age = 3", 5, "'=' is not understood; write '=='"),
        ("age > ", 7, "expected a value or a name; the expression ends"),
        ("(age > 3", 9, "expected ')'; the expression ends"),
        ("age > 3)", 8, "expected and, or, or the end; got ')'"),
        ("label == 'horse'", 10, "label has no class 'horse'; the classes are cat, dog, owl"),
        ("city == 3", 6, "one side is text, the other a number"),
        ("size + city > 2", 6, "'+' calculates with numbers, not with text"),
        ("age", 1, "this is a value, not a condition: compare it with another"),
        ("city == 'Bern", 9, "a ' is never closed"),
        ("age/size > 1", 1, "there is no feature 'age/size'; a division needs blanks around the slash"),
        ("__import__('os') == 1", 1, "there is no function '__import__'; there is length(name)"),
        ("label and age > 3", 7, "'and' joins conditions; one side of it is a value"),
        ("age @ 3", 5, "'@' is not understood"),
        ("age in [size]", 9, "a list holds numbers or texts"),
        ("", 1, "the expression is empty"),
    ],
)
def test_errors_name_the_position_in_the_expression(rows: Split, condition: str, position: int, what: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        rows.filter(condition)
    assert caught.value.message == f"position {position} of the expression: {what}"


def test_an_unknown_feature_shows_the_known_ones_and_the_place(rows: Split) -> None:
    with pytest.raises(ValueError, match="no feature") as caught:
        rows.filter("size > 1 and hight < 3")
    assert caught.value.help == (  # type: ignore[attr-defined]
        "size > 1 and hight < 3\n               ^",
        "The features: age, city, label, size, tokens",
    )


def test_lists_are_refused_with_what_helps(rows: Split) -> None:
    with pytest.raises(ExpressionError, match="tokens has lists of values") as caught:
        rows.filter("tokens > 3")
    assert caught.value.help == ("length(tokens) is the number of values.",)


@given(st.text(st.sampled_from("age<>=!andortisn()[]'\"`+-*/%1.5 _,lengthmig"), max_size=25))
def test_no_text_does_anything_but_parse_or_say_why_not(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert parse(text, ["age", "image/width"]).text == text


def test_the_last_part_of_a_name_is_enough_if_it_is_the_only_one(tmp_path: Path) -> None:
    names = ("image/width", "mask/height", "image/height")
    bushel.build({name: np.arange(10) for name in names}, tmp_path / "out")
    split = bushel.open(tmp_path / "out")["train"]
    assert len(split.filter("width >= 4")) == 6
    with pytest.raises(ExpressionError, match="'height' may be image/height or mask/height"):
        split.filter("height > 1")


def test_labels_are_filtered_by_the_index_without_reading_records(rows: Split, tmp_path: Path) -> None:
    bushel.build([{"x": n, "label": "even" if n % 2 == 0 else "odd"} for n in range(64)], tmp_path / "out")
    split = bushel.open(tmp_path / "out")["train"]
    assert len(split) == 64
    [path] = split.paths
    path.write_bytes(bytes(path.stat().st_size))  # the payload is gone; the index is still there
    assert len(split.filter("label == 'odd'")) == 32


def test_filter_select_sort_and_map_follow_one_another(rows: Split) -> None:
    chosen = rows.filter("age > 20").sort("age", descending=True).select([0, 1, 2]).map("age", lambda age: age / 2)
    assert chosen.filter("age > 98.5").values("age").values.tolist() == [99.5, 99.0]  # type: ignore[union-attr]
    batch = next(bushel.batches(chosen, batch_size=3))
    assert batch["age"].values.tolist() == [99.5, 99.0, 98.5]
    assert chosen.schema["age"].dtype == "float32"
    assert rows.schema["age"].dtype == "int64"


def test_sort_puts_records_without_the_value_last(rows: Split) -> None:
    by_age = rows.sort("age")
    assert numbers(by_age)[:3] == [1, 2, 3]
    assert numbers(by_age)[-3:] == [182, 189, 196]
    by_city = rows.sort("city", descending=True)
    assert numbers(by_city)[:3] == [3, 7, 11]
    with pytest.raises(bushel.SchemaMismatch, match="a feature of one value"):
        rows.sort("tokens")


def test_map_changes_the_type_and_names_the_record_if_it_fails(rows: Split) -> None:
    upper = rows.map("city", str.upper).map("city", len)
    assert upper.schema["city"].dtype == "int64"
    assert upper[:4]["city"].tolist() == [4, 5, 4, 6]
    with pytest.raises(ZeroDivisionError) as caught:
        rows.map("size", lambda size: 1 / (size - 0.125))[:]
    assert caught.value.__notes__[0].startswith("It is size of record 1 of ")


def test_features_are_selected_by_name(rows: Split) -> None:
    chosen = rows.select(["label", "city"])
    assert list(chosen[0]) == ["label", "city"]
    assert chosen.filter("label == 'cat'")[0]["city"] == "Bern"
    with pytest.raises(bushel.MissingName, match="town"):
        rows.select(["town"])


def test_a_sample_is_drawn_without_replacement_and_the_same_for_a_seed(rows: Split) -> None:
    drawn = numbers(rows.sample(50))
    assert len(set(drawn)) == 50
    assert numbers(rows.sample(50)) == drawn
    assert numbers(rows.sample(50, seed=1)) != drawn
    assert len(rows.sample(1000)) == 200


def test_tables_hold_all_values_with_nulls_and_names_of_classes(rows: Split) -> None:
    table = rows.to_arrow()
    assert table["age"].to_pylist() == [row["age"] for row in ROWS]
    assert table["tokens"].to_pylist()[:6] == [[], [1], [1, 1], [1, 1, 1], [1, 1, 1, 1], []]
    frame = rows.sort("size").to_pandas(["city", "label", "age"])
    assert frame["label"].tolist() == [row["label"] for row in ROWS]
    assert frame["city"].tolist() == [row["city"] for row in ROWS]
    assert frame["age"].isna().sum() == sum(row["age"] is None for row in ROWS)


def test_compressed_and_raw_data_are_filtered_too(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("\n".join(["x,label", *(f"{n},{'ab'[n % 2]}" for n in range(40))]))
    bushel.build(tmp_path / "rows.csv", tmp_path / "out", compression="gzip")
    for split in (bushel.open(tmp_path / "out")["train"], bushel.open(tmp_path / "rows.csv")["train"]):
        found = split.filter("x >= 10 and label == 'b'")
        assert sorted(found.values("x").tolist()) == list(range(11, 40, 2))  # type: ignore[union-attr]


def test_a_damaged_record_stops_a_filter_that_has_to_read_it(tmp_path: Path) -> None:
    bushel.build([{"x": n} for n in range(10)], tmp_path / "out")
    split = bushel.open(tmp_path / "out")["train"]
    data = bytearray(split.paths[0].read_bytes())
    data[-6] ^= 0xFF
    split.paths[0].write_bytes(bytes(data))
    with pytest.raises(BushelError, match="record 9"):
        split.filter("x > 3")
