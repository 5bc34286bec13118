"""Samples to columns and back."""

import numpy as np
import pytest

import bushel
from bushel.data.columns import BytesColumn, Ragged, SparseColumn, SparseRow, cut
from bushel.data.samples import Stack, as_column, column_of, feature_of, sample_at, to_columns
from bushel.data.schema import Feature

FEATURES = {
    "one": Feature(dtype="int64"),
    "row": Feature(dtype="float32", shape=(2,)),
    "list": Feature(dtype="int64", shape=(None,)),
    "boxes": Feature(dtype="float32", shape=(None, 4)),
    "text": Feature(dtype="str"),
    "tags": Feature(dtype="str", shape=(None,)),
    "steps": Feature(dtype="int64", shape=(None,), sequence=True),
    "sparse": Feature(dtype="float32", shape=(9,), encoding="sparse"),
}
SAMPLES = [
    {
        "one": 1,
        "row": [0.5, 1.5],
        "list": [1, 2, 3],
        "boxes": np.ones((2, 4), np.float32),
        "text": "é",
        "tags": ["a", "b"],
        "steps": [[1, 2], [3]],
        "sparse": SparseRow(np.array([2, 5]), np.array([1.0, 2.0], np.float32), 9),
    },
    {
        "one": 2,
        "row": [2.5, 3.5],
        "list": [],
        "boxes": np.empty((0, 4), np.float32),
        "text": "",
        "tags": [],
        "steps": [],
        "sparse": SparseRow(np.array([8]), np.array([3.0], np.float32), 9),
    },
]


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_samples_become_columns_and_samples_again():
    columns = to_columns(SAMPLES, FEATURES)
    for row, given in enumerate(SAMPLES):
        found = sample_at(columns, FEATURES, row)
        assert {name: plain(value) for name, value in found.items()} == {n: plain(v) for n, v in given.items()}


@pytest.mark.parametrize("name", [name for name in FEATURES if name != "sparse"])
@pytest.mark.parametrize("lacking", [(0,), (1,), (0, 1)])
def test_a_feature_that_a_sample_lacks_is_not_in_it_again(name, lacking):
    values = [None if row in lacking else sample[name] for row, sample in enumerate(SAMPLES)]
    column = column_of(values, FEATURES[name], name=name)
    assert column.present.tolist() == [row not in lacking for row in range(2)]
    for row, value in enumerate(values):
        found = sample_at({name: column}, FEATURES, row)
        assert {n: plain(v) for n, v in found.items()} == ({} if value is None else {name: plain(value)})


@pytest.mark.parametrize("name", FEATURES)
def test_a_part_of_a_column_is_the_column_of_those_rows(name):
    values = [sample[name] for sample in SAMPLES * 3]
    whole, part = (column_of(some, FEATURES[name], name=name) for some in (values, values[1:5]))
    found = cut(whole, 1, 5)
    assert type(found) is type(part)
    assert [sample_at({name: found}, FEATURES, row).keys() for row in range(4)] == [{name: 0}.keys()] * 4
    for row in range(4):
        one, other = (sample_at({name: column}, FEATURES, row)[name] for column in (found, part))
        assert plain(one) == plain(other)


def test_rows_that_happen_to_have_one_length_are_ragged_where_their_feature_is():
    column = column_of([[1, 2], [3, 4]], Feature(dtype="int64", shape=(None,)), name="x")
    assert isinstance(column, Ragged)
    assert column.to_list() == [[1, 2], [3, 4]]


def test_a_batch_of_whole_numbers_and_fractions_keeps_the_fractions():
    stack = Stack(2)
    stack.add({"x": 1, "y": np.array([1, 2])})
    stack.add({"x": 0.5, "y": np.array([0.5, 0.25])})
    columns = stack.columns()
    assert columns["x"].tolist() == [1.0, 0.5]
    assert columns["x"].dtype == np.float32
    assert columns["y"].tolist() == [[1.0, 2.0], [0.5, 0.25]]


def test_bytes_that_end_in_zeros_and_texts_in_arrays_stay_whole():
    assert as_column([b"a\0", bytearray(b"b\0\0")], name="x") == BytesColumn.of([b"a\0", b"b\0\0"])
    tags = column_of([np.array(["a", "b"]), np.array(["c"], object)], FEATURES["tags"], name="tags")
    assert tags.to_list() == [[b"a", b"b"], [b"c"]]


def test_a_sparse_row_that_is_missing_has_zeros_alone():
    column = column_of([None, SAMPLES[0]["sparse"]], FEATURES["sparse"], name="x")
    assert isinstance(column, SparseColumn)
    assert column.to_dense().tolist() == [[0] * 9, [0, 0, 1, 0, 0, 2, 0, 0, 0]]


def test_what_cannot_be_stored_is_refused_with_its_name():
    with pytest.raises(bushel.SchemaMismatch, match=r"^a value of type int cannot be stored - at x$"):
        feature_of(np.array(["a", 1], object), name="x")
    with pytest.raises(bushel.SchemaMismatch, match=r"first size only, got \[1, 2\] and \[2, 3\] - at x"):
        column_of([np.ones((1, 2)), np.ones((2, 3))], Feature(dtype="float32", shape=(None, 2)), name="x")
    with pytest.raises(bushel.SchemaMismatch, match=r"^None cannot be stored - at x\[1\]"):
        as_column([1, None], name="x")
