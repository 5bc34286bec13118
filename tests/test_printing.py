"""Tables for people, and what results look like at a prompt and in a notebook."""

import importlib
import json

import numpy as np
import pytest

import bushel
from bushel.errors import printable
from bushel.printing import html_table, markdown_text, text_table


def test_a_table_aligns_numbers_to_the_right() -> None:
    assert list(text_table(("split", "records"), [("train", "1,000"), ("val", "9")])) == [
        "split  records",
        "train    1,000",
        "val          9",
    ]


def test_text_in_an_html_table_is_escaped() -> None:
    assert "<script>" not in html_table(("a",), [("<script>alert(1)</script>",)], title="<b>")


@pytest.fixture
def data(tmp_path):
    x = np.zeros((100, 3), "float32")
    return bushel.build({"x": x, "label": np.arange(100) % 2}, tmp_path / "data", split="80/20")


def test_a_dataset_a_split_and_a_manifest_say_in_one_line_what_they_hold(data) -> None:
    opened = bushel.open(data.path)
    assert repr(opened).endswith("train: 80 records in 1 shard, val: 20 records in 1 shard)")
    assert repr(opened["train"]) == "Split(train: 80 records in 1 shard)"
    assert repr(opened.manifest) == "Manifest(train: 80, val: 20 records; 2 features)"
    assert "float32" in opened._repr_html_()


def test_a_batch_says_its_columns_and_not_its_values(data) -> None:
    batch = next(iter(bushel.batches(bushel.open(data.path)["train"], batch_size=10)))
    assert "x: float32 [10, 3]" in repr(batch)
    assert len(repr(batch)) < 200
    assert "10 rows of epoch 0" in batch._repr_html_()


def test_foreign_files_are_shown_without_reading_them(tmp_path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"not looked at")
    assert "all: 1 shard" in repr(bushel.open(tmp_path / "a.tfrecord"))


def test_modules_load_when_they_are_used() -> None:
    assert bushel.transforms.resize
    assert bushel.sources.images
    with pytest.raises(AttributeError, match=r"bushel.writing is now bushel.building"):
        bushel.writing  # noqa: B018


@pytest.mark.parametrize(
    ("room", "old", "new"), [("checking", "Plan", "ReadingPlan"), ("contract", "Difference", "ServingDifference")]
)
def test_names_that_moved_say_where_they_are_now(room: str, old: str, new: str) -> None:
    module = importlib.import_module(f"bushel.{room}")
    with pytest.raises(AttributeError, match=f"bushel.{room}.{old} is now bushel.{room}.{new}"):
        getattr(module, old)
    assert getattr(module, new).__name__ == new
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


HOSTILE = "a\x1b[31mb\rc\u202ed\u2066\x9be\u200bf\u2028g\x7f"


@pytest.mark.parametrize("form", ["lines", "line", "json"])
def test_what_data_brought_is_shown_and_never_obeyed(form):
    shown = printable(HOSTILE, form=form)
    assert shown.isprintable()
    assert shown.startswith("a\\u001b[31mb" if form == "json" else "a\\x1b[31mb")
    if form == "json":
        assert json.loads(f'"{shown}"') == HOSTILE


def test_text_of_all_scripts_stays_as_it_is():
    for text in ("é", "日本\u3000語", "\u0645\u06cc\u200c\u062e", "👩\u200d🚀", "a\xa0b"):
        assert printable(text) == text
    assert printable("a\n\tb") == "a\n\tb"
    assert printable("a\n\tb", form="line") == "a\\n\\tb"


def test_tables_html_and_markdown_escape_what_data_brought():
    for made in (
        *text_table(("a", HOSTILE), [(HOSTILE, "1")]),
        html_table((HOSTILE,), [(HOSTILE,)]),
        markdown_text(HOSTILE),
    ):
        assert made.isprintable()
    assert markdown_text("a|b\n<i>[x](y)") == "a\\|b &lt;i&gt;\\[x\\](y)"
