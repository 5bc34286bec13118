"""Categories as codes and vectors: as scikit-learn makes them, by sample and by column alike."""

import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer, OneHotEncoder, OrdinalEncoder

from bushel import transforms as t
from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import SchemaMismatch
from bushel.transforms.chain import merge_in_order

DRAW = t.Draw(0, 0, 0)
COLOURS = ["red", "blue", "green", "red", "ärger", "blue", "red"]


def fitted(transform, parts, *, by_column=True):
    fits = []
    for part in parts:
        fit = transform.begin_fit()
        if by_column:
            fit.add_columns({"x": column(part)})
        else:
            fit.add([{"x": value} for value in part])
        fits.append(fit)
    return merge_in_order(fits).finish()


def column(values):
    if isinstance(values[0], list):
        return Ragged.of(values)
    return BytesColumn.of(values) if isinstance(values[0], str) else np.array(values)


def both_ways(transform, values) -> np.ndarray:
    by_column = transform.apply_columns({"x": column(values)})["x"]
    by_sample = np.stack([transform.apply({"x": value}, DRAW)["x"] for value in values])
    np.testing.assert_array_equal(by_column, by_sample)
    assert by_column.dtype == by_sample.dtype == np.int64
    return by_column


@pytest.mark.parametrize("values", [COLOURS, [3, -1, 3, 10, 2]])
def test_codes_and_vectors_are_those_of_scikit_learn(values):
    parts = [values[:3], values[3:]]
    table = np.array(values, object)[:, None]
    codes = both_ways(fitted(t.encode("x"), parts), values)
    assert codes.tolist() == OrdinalEncoder().fit_transform(table)[:, 0].tolist()
    vectors = both_ways(fitted(t.one_hot("x"), parts), values)
    assert vectors.tolist() == OneHotEncoder(sparse_output=False).fit_transform(table).tolist()
    assert fitted(t.encode("x"), parts) == fitted(t.encode("x"), parts, by_column=False)


def test_lists_become_vectors_as_in_scikit_learn():
    lists = [["a", "b"], ["b", "b", "c"], ["a"]]
    made = fitted(t.multi_hot("x"), [lists[:1], lists[1:]])
    assert both_ways(made, lists).tolist() == MultiLabelBinarizer().fit_transform(lists).tolist()
    counted = t.multi_hot("x", classes=("a", "b", "c"), count=True)
    assert both_ways(counted, lists).tolist() == [[1, 1, 0], [0, 2, 1], [1, 0, 0]]
    assert made.apply({"x": []}, DRAW)["x"].tolist() == [0, 0, 0]


def test_text_with_separators_becomes_a_vector():
    texts = ["red; round", "round", ""]
    made = fitted(t.multi_hot("x", separator=";"), [texts])
    assert made.fitted.names == ("red", "round")
    assert [made.apply({"x": text}, DRAW)["x"].tolist() for text in texts] == [[1, 1], [0, 1], [0, 0]]


def test_a_category_that_train_does_not_have_is_refused_or_told():
    made = fitted(t.encode("x"), [COLOURS])
    with pytest.raises(SchemaMismatch, match="'pink' is not a class of the train split - at x"):
        made.apply({"x": "pink"}, DRAW)
    assert fitted(t.encode("x", unknown="code"), [COLOURS]).apply({"x": "pink"}, DRAW)["x"] == 4
    assert fitted(t.one_hot("x", unknown="zero"), [COLOURS]).apply({"x": "pink"}, DRAW)["x"].tolist() == [0] * 4


def test_rare_categories_are_left_out_if_asked():
    assert fitted(t.encode("x", most=2), [COLOURS]).fitted.names == ("blue", "red")
    assert fitted(t.encode("x", min_count=3), [COLOURS]).fitted.names == ("red",)


def test_a_sample_without_the_feature_is_left_alone():
    some = Ragged(BytesColumn.of(["b", "a"]), np.array([0, 1, 1, 2]), np.array([True, False, True]))
    made = t.one_hot("x", classes=("a", "b"))
    assert made.apply_columns({"x": some})["x"].to_list() == [[0, 1], None, [1, 0]]
    assert made.apply({"y": 1}, DRAW) == {"y": 1}
    assert t.encode("x", classes=("a", "b")).apply_columns({"x": some})["x"].to_list() == [[1], None, [0]]


def test_floats_and_lists_in_the_wrong_place_are_refused():
    with pytest.raises(SchemaMismatch, match="categories must be text or integers - at x"):
        fitted(t.encode("x"), [[1.5]])
    with pytest.raises(SchemaMismatch, match="one_hot takes one value, got a list - at x"):
        t.one_hot("x", classes=("a",)).apply({"x": ["a"]}, DRAW)
    with pytest.raises(ValueError, match="classes must be all text or all integers"):
        t.encode("x", classes=("a", 1))
    with pytest.raises(ValueError, match="classes must differ"):
        t.encode("x", classes=("a", "a"))


def test_many_texts_are_coded_as_few_are():
    values = [f"class {number % 37}" for number in range(1000)]
    made = fitted(t.encode("x", unknown="code", most=30), [values])
    by_column = made.apply_columns({"x": column(values)})["x"]
    assert by_column.tolist() == [made.apply({"x": value}, DRAW)["x"] for value in values]
    assert by_column.max() == 30
