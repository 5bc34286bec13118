"""Padded, bucketed, packed and sparse batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel import Bucket, Order, Pack, Pad, Ragged, Sparse, _native


def feed(folder: Path, *layout: Any, batch_size: int = 10, **settings: Any) -> Any:
    return bushel.batches(bushel.open(folder)["train"], batch_size=batch_size, layout=layout, **settings)


def test_rows_are_filled_up_to_the_longest_a_multiple_or_a_length(numbered: Path) -> None:
    longest = next(feed(numbered, Pad("tokens"), batch_size=3))
    assert longest["tokens"].tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2]]
    assert longest["tokens/mask"].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert next(feed(numbered, Pad("tokens", multiple=8), batch_size=3))["tokens"].shape == (3, 8)
    fixed = next(feed(numbered, Pad("tokens", length=2, fill=-1, mask=False), batch_size=3))
    assert fixed["tokens"].tolist() == [[0, -1], [0, 1], [0, 1]]
    assert "tokens/mask" not in fixed


@given(rows=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9), max_size=9), length=st.integers(1, 9))
def test_padding_is_what_numpy_would_do(rows: list[list[int]], length: int) -> None:
    for dtype in (np.int64, np.int32, np.float64):
        column = Ragged.of(rows, dtype) if any(rows) else Ragged(np.empty(0, dtype), np.zeros(len(rows) + 1, np.int64))
        columns, cut = Pad("x", length=length, fill=7).apply({"x": column})
        expected = [(row[:length] + [7] * length)[:length] for row in rows]
        assert columns["x"].tolist() == np.array(expected, dtype).reshape(len(rows), length).tolist()
        assert columns["x"].dtype == dtype
        assert cut == sum(len(row) > length for row in rows)


def test_batches_of_a_bucket_hold_rows_of_like_length(numbered: Path) -> None:
    def waste(*layout: Any) -> float:
        masks = [batch["tokens/mask"] for batch in feed(numbered, *layout, order=Order(shuffle=True))]
        return 1 - float(sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks))

    bucketed = waste(Bucket("tokens", window=10), Pad("tokens"))
    assert bucketed < waste(Pad("tokens")) / 3


def test_buckets_do_not_come_sorted(numbered: Path) -> None:
    lengths = [int(batch["tokens"].lengths[0]) for batch in feed(numbered, Bucket("tokens"), order=Order(shuffle=True))]
    assert lengths != sorted(lengths)


@given(lengths=st.lists(st.integers(0, 30), max_size=60), capacity=st.integers(1, 25))
def test_bins_are_never_too_full(lengths: list[int], capacity: int) -> None:
    bins, count = _native.pack(np.array(lengths, np.int64), capacity)
    filled = np.bincount(bins, np.minimum(lengths, capacity), minlength=count) if lengths else np.zeros(0)
    assert len(bins) == len(lengths)
    assert (filled <= capacity).all()
    if lengths:
        assert set(bins.tolist()) == set(range(count))
        total = sum(min(length, capacity) for length in lengths)
        assert count <= 2 * total / capacity + 1 or 0 in lengths


def test_packed_rows_hold_whole_records_side_by_side(numbered: Path) -> None:
    seen = []
    for batch in feed(numbered, Pack("tokens", 12, fill=-1), order=Order(shuffle=True), batch_size=4):
        tokens, segments, places = (batch[name] for name in ("tokens", "tokens/segments", "tokens/positions"))
        assert tokens.shape == segments.shape == places.shape == (len(tokens), 12)
        for row in range(len(tokens)):
            for segment, number in enumerate(batch["number"][row].tolist(), start=1):
                own = segments[row] == segment
                assert tokens[row][own].tolist() == list(range(number % 7 + 1))
                assert places[row][own].tolist() == list(range(number % 7 + 1))
                seen.append(number)
            assert set(tokens[row][segments[row] == 0].tolist()) <= {-1}
    assert sorted(seen) == list(range(103))


def test_packing_leaves_little_room(numbered: Path) -> None:
    segments = [batch["tokens/segments"] for batch in feed(numbered, Pack("tokens", 28), batch_size=4)]
    filled = sum(int((segment > 0).sum()) for segment in segments) / sum(segment.size for segment in segments)
    assert filled > 0.95


def test_a_record_longer_than_a_packed_row_is_cut_and_counted(numbered: Path) -> None:
    packed = feed(numbered, Pack("tokens", 4))
    assert max(int(batch["tokens/positions"].max()) for batch in packed) == 3
    assert packed.report().truncated == sum(number % 7 + 1 > 4 for number in range(103))


def test_features_packed_together_must_be_of_one_length(numbered: Path) -> None:
    with pytest.raises(bushel.SchemaMismatch, match="must have the lengths of 'tokens' - at x"):
        next(feed(numbered, Pack("tokens", 12, also=("x",))))


def test_text_cannot_be_padded(numbered: Path) -> None:
    with pytest.raises(bushel.SchemaMismatch, match="only numbers can be padded, packed or sparse - at text"):
        next(feed(numbered, Pad("text")))
    with pytest.raises(bushel.MissingName, match="no column 'tokenz'; did you mean 'tokens'"):
        next(feed(numbered, Pad("tokenz")))


def test_sparse_indices_out_of_range_are_refused() -> None:
    columns = {"x/indices": Ragged.of([[0, 11]]), "x/values": Ragged.of([[1.0, 2.0]])}
    with pytest.raises(bushel.SchemaMismatch, match="indices must be at least 0 and below 10 - at record 0/x/indices"):
        Sparse("x", 10).apply(columns)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Pad("x", length=0), "length must be at least 1, got 0"),
        (lambda: Pad("x", multiple=0), "multiple must be at least 1, got 0"),
        (lambda: Bucket("x", window=0), "window must be at least 1, got 0"),
        (lambda: Pack("x", 0), "length must be at least 1, got 0"),
    ],
)
def test_wrong_layouts_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
