"""Samples from Python."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gather import keys_of, listed, read_all
from pictures import encode_image, photo

from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.sources import iterable

SAMPLES: list[dict[str, Any]] = [
    {"x": [1.0, 2.0], "label": "a", "tags": ["p"], "id": "k0"},
    {"x": [3.0, 4.0], "label": "b", "tags": [], "n": 7, "id": "k1"},
]


def generate() -> Iterator[dict[str, Any]]:
    yield from SAMPLES


@pytest.mark.parametrize("make", [lambda: SAMPLES, generate, lambda: generate], ids=["list", "generator", "function"])
def test_lists_generators_and_functions(make: Any) -> None:
    source = iterable(make())
    assert source.reads == "sequence"
    schema = source.schema()
    assert {name: schema[name].describe() for name in schema} == {
        "x": "float32[2]",
        "label": "str",
        "tags": "str[?]",
        "id": "str",
        "n": "int64, optional",
    }
    assert keys_of(source) == ["0", "1"]
    assert listed(source, "label") == [b"a", b"b"]
    columns, refused = read_all(source)
    assert columns["x"] == [[1.0, 2.0], [3.0, 4.0]]
    assert columns["n"] == [None, 7]
    assert columns["tags"] == [[b"p"], []]
    assert not refused
    assert read_all(source) == (columns, refused)


def test_samples_that_do_not_fit_are_refused_one_by_one() -> None:
    samples: list[Any] = [{"x": i, "y": [1, 2]} for i in range(10)]
    samples[2] = {"x": "two", "y": [1, 2]}
    samples[4] = {"x": 4, "y": [[1], [2]]}
    samples[6] = {"x": 2**70, "y": [1, 2]}
    samples[7] = {"x": object(), "y": [1, 2]}
    columns, refused = read_all(iterable(samples))
    assert columns["x"] == [0, 1, 3, 5, 8, 9]
    assert [(r.row, r.reason) for r in refused][:2] == [
        (2, "x: expected int64, got str"),
        (4, "y: expected shape (2,), got (2, 1)"),
    ]
    assert [r.row for r in refused] == [2, 4, 6, 7]


def test_integers_and_floats_together_are_floats() -> None:
    source = iterable([{"x": 1}, {"x": 2.5}])
    assert source.schema()["x"].describe() == "float32"
    assert read_all(source)[0] == {"x": [1.0, 2.5]}


def test_none_is_missing() -> None:
    source = iterable([{"x": None, "s": "a"}, {"x": 1, "s": None}])
    assert read_all(source)[0] == {"x": [None, 1], "s": [b"a", None]}


def test_arrays_of_different_sizes() -> None:
    source = iterable([{"x": np.zeros((i, 2), np.float32)} for i in (1, 3)])
    assert source.schema()["x"].describe() == "float32[?,2]"
    (block,) = source.read(0, None)
    assert [len(row) for row in block.columns["x"]] == [1, 3]


def test_keys_of_samples() -> None:
    assert keys_of(iterable(generate(), key="id")) == ["k0", "k1"]
    with pytest.raises(MissingName, match="no feature 'ident'"):
        iterable(SAMPLES, key="ident").schema()
    columns, refused = read_all(iterable([{"k": "a", "x": 1}, {"x": 2}], key="k"))
    assert columns["x"] == [1]
    assert refused == [(1, "schema", "k: the key is missing")]


def test_what_is_no_sample_is_told() -> None:
    with pytest.raises(ValueError, match="samples must be an iterable or a function, got int"):
        iterable(5)  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatch, match="a sample must be a dict, got int - at sample 0"):
        iterable([1]).schema()  # type: ignore[list-item]


def test_what_cannot_be_stored_is_told_in_words() -> None:
    samples: list[Any] = [{"x": 1}, {"x": 1, "y": {"a": 1}}, {"x": 1, "y": [1, "a"]}]
    columns, refused = read_all(iterable(samples))
    assert columns == {"x": [1]}
    assert [r.row for r in refused] == [1, 2]
    assert refused[1].reason == "y: text and numbers are mixed in one list"
    with pytest.raises(SchemaMismatch, match="the name of a feature must be a str, got 1 - at sample 0"):
        iterable([{1: 2}]).schema()  # type: ignore[dict-item]


def test_a_function_that_gives_other_samples_the_second_time_is_noticed() -> None:
    counts = iter((3, 2))
    source = iterable(lambda: ({"x": i} for i in range(next(counts))))
    source.schema()
    with pytest.raises(BushelError, match="gave 3 samples the first time and 2 the second"):
        list(source.read(0, None))


def test_a_generator_pickles_once_it_was_gone_through() -> None:
    source = iterable(generate())
    again = pickle.loads(pickle.dumps(source))
    assert read_all(again) == read_all(source)
    assert source.locate(0, 1) == "generate: sample 1"


def test_encoded_images_are_images_by_their_bytes() -> None:
    pictures = [encode_image(photo(number, 8, 8), kind) for number, kind in enumerate(["JPEG", "PNG", "JPEG"])]
    samples = [{"image": data, "frames": [data, data], "label": "cat"} for data in pictures]
    schema = iterable([*samples, {"label": "dog"}]).schema()
    assert {name: schema[name].describe() for name in schema} == {
        "image": "bytes (image), optional",
        "frames": "bytes[2] (image), optional",
        "label": "str",
    }


def test_bytes_of_which_some_are_not_images_stay_bytes() -> None:
    picture = encode_image(photo(0, 8, 8), "PNG")
    schema = iterable([{"x": picture}, {"x": b"\x00\x01"}]).schema()
    assert schema["x"].describe() == "bytes"
