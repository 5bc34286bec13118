import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel import _native
from bushel.data import columns
from bushel.data.columns import BytesColumn, Ragged, as_dense, as_ragged, concatenate, count_of, take, with_missing

ROWS = st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=8)
TEXTS = st.lists(st.binary(max_size=5), max_size=8)


def test_a_bytes_column_is_offsets_and_one_buffer() -> None:
    column = BytesColumn.of([b"ab", "é", b""])
    assert column.offsets.tolist() == [0, 2, 4, 4]
    assert column.data.tobytes() == "abé".encode()
    assert column.to_list() == [b"ab", "é".encode(), b""]
    assert column.lengths.tolist() == [2, 2, 0]
    assert (column[-1], column[0]) == (b"", b"ab")
    assert column[1:].to_list() == ["é".encode(), b""]


@pytest.mark.parametrize("column", [BytesColumn.of([b"a"]), Ragged.of([[1]])], ids=["bytes", "ragged"])
@pytest.mark.parametrize("row", [1, -2])
def test_a_row_beyond_the_end_is_an_index_error_that_says_how_many_there_are(column: Ragged, row: int) -> None:
    with pytest.raises(IndexError, match=f"row must be below 1, got {row}"):
        column[row]


def test_bytes_columns_compare_by_value_and_go_to_numpy_as_objects() -> None:
    assert BytesColumn.of([b"a", b"bc"]) == BytesColumn.of([b"x", b"a", b"bc"])[1:]
    assert BytesColumn.of([b"ab", b"c"]) != BytesColumn.of([b"a", b"bc"])
    array = BytesColumn.of([b"a\0", b""]).to_numpy()
    assert array.dtype == object
    assert array.tolist() == [b"a\0", b""]


def test_a_ragged_column_tells_rows_without_the_feature_from_empty_ones() -> None:
    column = Ragged(np.array([1, 2]), np.array([0, 0, 2, 2]), np.array([True, True, False]))
    assert column.to_list() == [[], [1, 2], None]
    assert column[::-1].to_list() == [None, [1, 2], []]


def test_padding_cuts_fills_and_masks() -> None:
    out, mask = Ragged.of([[1, 2, 3], [], [4]]).to_padded(2, fill=-1)
    assert out.tolist() == [[1, 2], [-1, -1], [4, -1]]
    assert mask.tolist() == [[True, True], [False, False], [True, False]]
    longest, _ = Ragged.of([[1, 2, 3], []]).to_padded()
    assert longest.tolist() == [[1, 2, 3], [0, 0, 0]]
    with pytest.raises(TypeError, match="only numbers can be padded"):
        Ragged.of([[b"a"]]).to_padded()


@given(rows=ROWS, data=st.data())
def test_taking_rows_is_what_lists_do(rows: list[list[int]], data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    column = Ragged.of(rows, np.int64)
    assert take(column, np.array(picked, np.int64)).to_list() == [rows[i] for i in picked]


@given(parts=st.lists(ROWS, min_size=1, max_size=4))
def test_joining_ragged_columns_is_what_lists_do(parts: list[list[list[int]]]) -> None:
    joined = concatenate([Ragged.of(part, np.int64) for part in parts])
    assert joined.to_list() == [row for part in parts for row in part]


@given(parts=st.lists(TEXTS, min_size=1, max_size=4))
def test_joining_bytes_columns_is_what_lists_do(parts: list[list[bytes]]) -> None:
    assert concatenate([BytesColumn.of(part) for part in parts]).to_list() == [row for part in parts for row in part]


def test_dense_columns_of_different_widths_join_to_a_ragged_one() -> None:
    joined = concatenate([np.ones((2, 2), np.int64), np.zeros((1, 3), np.int64), np.array([7])])
    assert isinstance(joined, Ragged)
    assert joined.to_list() == [[1, 1], [1, 1], [0, 0, 0], [7]]


def test_dense_columns_of_one_shape_stay_dense() -> None:
    joined = concatenate([np.ones((2, 2)), np.zeros((1, 2))])
    assert isinstance(joined, np.ndarray)
    assert joined.shape == (3, 2)


def test_joining_keeps_what_is_absent() -> None:
    absent = Ragged(np.empty(0, np.int64), np.zeros(3, np.int64), np.zeros(2, bool))
    assert concatenate([np.array([5]), absent]).to_list() == [[5], None, None]


def test_any_column_can_be_seen_as_ragged() -> None:
    assert as_ragged(np.arange(4).reshape(2, 2)).to_list() == [[0, 1], [2, 3]]
    assert as_ragged(BytesColumn.of([b"a", b"b"])).to_list() == [[b"a"], [b"b"]]


def test_a_size_that_varies_counts_as_one() -> None:
    assert count_of((2, None, 3)) == 6
    assert count_of(()) == 1


def test_a_ragged_column_whose_rows_are_all_alike_can_be_dense_again() -> None:
    present = np.ones(2, bool)
    assert as_dense(Ragged(np.arange(4), np.array([0, 2, 4]), present)).tolist() == [[0, 1], [2, 3]]
    assert as_dense(Ragged(np.arange(2), np.array([0, 1, 2]), present)).tolist() == [0, 1]
    assert as_dense(Ragged(BytesColumn.of([b"a", b"b"]), np.array([0, 1, 2]), present)) == BytesColumn.of([b"a", b"b"])
    assert as_dense(Ragged.of([[1], [1, 2]])).to_list() == [[1], [1, 2]]
    lacking = Ragged(np.arange(1), np.array([0, 1, 1]), np.array([True, False]))
    assert as_dense(lacking) is lacking


def test_rows_that_lack_a_feature_are_spread_among_the_others() -> None:
    present = np.array([True, False, True, True])
    assert with_missing(np.arange(3), present).to_list() == [[0], None, [1], [2]]
    assert with_missing(np.arange(6).reshape(3, 2), present).to_list() == [[0, 1], None, [2, 3], [4, 5]]
    some = Ragged(BytesColumn.of(["a", "b"]), np.array([0, 2, 2, 2]), np.array([True, True, False]))
    found = with_missing(some, present)
    assert found.to_list() == [[b"a", b"b"], None, [], None]
    assert present.tolist() == [True, False, True, True]


def test_arrays_piled_up_are_one_array_in_memory_and_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_LARGE", 100)
    pile, other = columns.Pile(np.int64), columns.Pile(np.int64)
    for part in np.split(np.arange(100), [1, 1, 30, 31, 80]):
        pile.add(part)
    other.extend(pickle.loads(pickle.dumps(pile)))
    other.add(np.array([100]))
    assert pile.whole().tolist() == list(range(100))
    assert (len(other), other.whole().tolist(), other.whole().tolist()) == (101, [*range(101)], [*range(101)])
    assert columns.Pile(np.uint8).whole().tolist() == []


def test_many_texts_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = columns.BytesColumn.of([b"x" * (number % 7) + b"%d" % number for number in range(500)])
    rows = np.random.default_rng(0).integers(0, 500, 700)
    expected = texts.take(rows).to_list()
    monkeypatch.setattr(columns, "_STEP", 64)
    assert texts.take(rows).to_list() == expected


def test_a_large_array_of_the_core_lies_in_a_block_that_can_be_kept() -> None:
    array = columns.aligned_empty((6 << 20,), np.uint8, _native.Pool(1))
    block: Any = _native.keep_block(array)
    address, size = block
    assert address <= array.ctypes.data
    assert array.ctypes.data + array.nbytes <= address + size
    assert _native.keep_block(array[1 << 20 : 2 << 20]) == (address, size)
    assert _native.keep_block(np.zeros(6 << 20, np.uint8)) is None
    assert _native.keep_block(columns.aligned_empty((100,), np.uint8)) is None


def test_splits_are_cut_within_their_bounds() -> None:
    splits = np.array([0, 2, 5, 9], np.int64)
    own, first, last = _native.cut_splits(splits, 1, 3)
    assert (own.tolist(), first, last) == ([0, 3, 7], 2, 9)
    assert _native.cut_splits(splits, 2, 2)[0].tolist() == [0]
    for begin, end in ((2, 1), (0, 4), (4, 4)):
        with pytest.raises(IndexError):
            _native.cut_splits(splits, begin, end)
