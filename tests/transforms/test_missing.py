"""Missing values: filled as scikit-learn fills them, refused, or marked; by sample and by column alike."""

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from bushel import transforms as t
from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import SchemaMismatch
from bushel.transforms.chain import merge_in_order

DRAW = t.Draw(0, 0, 0)


def optional(values: list) -> Ragged:
    present = np.array([value is not None for value in values])
    there = [value for value in values if value is not None]
    flat = BytesColumn.of(there) if there and isinstance(there[0], str) else np.array(there)
    return Ragged(flat, np.concatenate([[0], np.cumsum(present)]), present)


def fitted(transform, parts, *, by_column=True):
    fits = []
    for part in parts:
        fit = transform.begin_fit()
        if by_column:
            fit.add_columns({"x": optional(part)})
        else:
            fit.add([{} if value is None else {"x": value} for value in part])
        fits.append(fit)
    return merge_in_order(fits).finish()


def plain(column) -> list:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


@pytest.mark.parametrize("by", ["mean", "median", "most_frequent"])
def test_what_is_filled_in_is_what_scikit_learn_fills_in(by):
    numbers = np.random.default_rng(0).integers(0, 9, 300).astype(float)
    numbers[::7] = np.nan
    expected = SimpleImputer(strategy=by).fit(numbers[:, None]).statistics_[0]
    parts = [[None if np.isnan(value) else value for value in part] for part in np.array_split(numbers, 4)]
    made = fitted(t.fill("x", by=by), parts)
    assert made.fitted.value == pytest.approx(expected, rel=1e-14)
    assert made == fitted(t.fill("x", by=by), parts, by_column=False)
    assert made.fitted.count == int(np.isfinite(numbers).sum())


def test_nan_counts_as_missing():
    made = fitted(t.fill("x", by="mean"), [[1.0, np.nan, 3.0]])
    assert made.apply({"x": np.nan}, DRAW)["x"] == 2.0
    assert made.apply_columns({"x": np.array([1.0, np.nan])})["x"].tolist() == [1.0, 2.0]
    assert made.apply({"x": np.array([np.nan, 5.0])}, DRAW)["x"].tolist() == [2.0, 5.0]


def test_none_of_a_raw_sample_counts_as_missing():
    assert t.fill("x", value=4, indicator=True).apply({"x": None}, DRAW) == {"x": 4, "x/missing": 1}
    assert t.fill("x", value="none").apply({"x": None}, DRAW) == {"x": "none"}
    with pytest.raises(SchemaMismatch):
        t.require("x").apply({"x": None}, DRAW)


@pytest.mark.parametrize(
    ("transform", "values", "expected"),
    [
        (t.fill("x", value=0), [5, None, 7], [5, 0, 7]),
        (t.fill("x", value=0.5), [5, None, 7], [5.0, 0.5, 7.0]),
        (t.fill("x", value=-1), [1.5, None], [1.5, -1.0]),
        (t.fill("x", value="none"), ["a", None], [b"a", b"none"]),
    ],
)
def test_a_stated_value_is_filled_in_by_column_and_by_sample(transform, values, expected):
    assert plain(transform.apply_columns({"x": optional(values)})["x"]) == expected
    samples = [{} if value is None else {"x": value} for value in values]
    found = [transform.apply(sample, DRAW)["x"] for sample in samples]
    assert [value.encode() if isinstance(value, str) else value for value in found] == expected


def test_an_indicator_says_what_was_filled_in():
    transform = t.fill("x", value=0.0, indicator=True)
    changed = transform.apply_columns({"x": optional([1.0, None])})
    assert changed["x/missing"].tolist() == [0, 1]
    assert transform.apply({}, DRAW) == {"x": 0.0, "x/missing": 1}
    assert transform.apply({"x": 1.0}, DRAW) == {"x": 1.0, "x/missing": 0}


def test_what_is_required_is_refused_where_it_is_missing():
    with pytest.raises(SchemaMismatch, match="the value is missing - at x"):
        t.require("x").apply({"y": 1}, DRAW)
    with pytest.raises(SchemaMismatch, match="the value is missing - at x"):
        t.require("x").apply_columns({"x": np.array([1.0, np.nan])})
    assert t.require("x").apply_columns({"x": optional([1.0, 2.0])})["x"].tolist() == [1.0, 2.0]


def test_text_has_no_mean():
    with pytest.raises(SchemaMismatch, match="text has no mean - at x"):
        fitted(t.fill("x", by="mean"), [["a"]])
    assert fitted(t.fill("x", by="most_frequent"), [["b", "a", None], ["b"]]).fitted.value == "b"


def test_settings_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match="value or by must be given, and not both"):
        t.fill("x")
    with pytest.raises(ValueError, match="by must be one of mean, median, most_frequent; got 'mode'"):
        t.fill("x", by="mode")
