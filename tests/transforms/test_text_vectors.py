"""TF-IDF and hashed n-grams: the vectors of scikit-learn."""

import pickle
import re
from typing import Any

import numpy as np
import pytest
from corpus import documents
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

import bushel
from bushel import transforms as t
from bushel.data.columns import BytesColumn, SparseColumn
from bushel.transforms import Draw

DRAW = Draw(0, 0, 0)
# scikit-learn's \w knows no marks, which bushel's words have: the texts that have any are left out.
TEXTS = [text for text in documents() if "हि" not in text and "\u0301" not in text]
TRAIN, OTHERS = TEXTS[::2], TEXTS[1::2]


def fitted(transform: Any, texts: list[str]) -> Any:
    fit = transform.begin_fit()
    fit.add_columns({"text": BytesColumn.of(texts)})
    return fit.finish()


def assert_same(ours: SparseColumn, theirs: Any) -> None:
    theirs.sort_indices()
    theirs.eliminate_zeros()
    assert ours.shape == theirs.shape
    assert np.array_equal(ours.row_splits, theirs.indptr)
    assert np.array_equal(ours.places, theirs.indices)
    assert ours.values.dtype == np.float32
    np.testing.assert_allclose(ours.values, theirs.data, rtol=1e-6)


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({}, {}),
        ({"min_texts": 3}, {"min_df": 3}),
        ({"sublinear": True, "norm": "l1"}, {"sublinear_tf": True, "norm": "l1"}),
        ({"norm": "none"}, {"norm": None}),
    ],
)
def test_tfidf_is_that_of_scikit_learn(ngrams: Any, settings: dict[str, Any], theirs: dict[str, Any]) -> None:
    transform = fitted(t.tfidf(ngrams=ngrams, **settings), TRAIN)
    vectorizer = TfidfVectorizer(lowercase=False, token_pattern=r"\w+", ngram_range=ngrams, **theirs)
    vectorizer.fit(TRAIN)
    assert list(transform.fitted.terms) == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_allclose(transform.fitted.weights, vectorizer.idf_, rtol=1e-15)
    for texts in (TRAIN, OTHERS):
        column = transform.apply_columns({"text": BytesColumn.of(texts)})["text"]
        assert_same(column, vectorizer.transform(texts))
    assert transform.apply({"text": OTHERS[0]}, DRAW)["text"] == column[0]


def test_the_most_frequent_terms_are_kept() -> None:
    transform = fitted(t.tfidf(size=4), ["b b b a a c", "c d d d d", "a"])
    assert transform.fitted.terms == ("a", "b", "c", "d")
    assert fitted(t.tfidf(size=2), ["b b b a a c", "c d d d d", "a"]).fitted.terms == ("a", "d")
    vectorizer = TfidfVectorizer(lowercase=False, token_pattern=r"\w+", max_features=50).fit(TRAIN)
    ours = set(fitted(t.tfidf(size=50), TRAIN).fitted.terms)
    assert len(ours - set(vectorizer.get_feature_names_out())) <= 1  # of those that tie for the last place


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({}, {}),
        ({"ngrams": (1, 3), "size": 1000}, {"ngram_range": (1, 3), "n_features": 1000}),
        ({"signed": False, "norm": "l1"}, {"alternate_sign": False, "norm": "l1"}),
        ({"binary": True, "norm": "none", "signed": False}, {"binary": True, "norm": None, "alternate_sign": False}),
    ],
)
def test_hashed_ngrams_are_those_of_scikit_learn(settings: dict[str, Any], theirs: dict[str, Any]) -> None:
    transform = t.hash_ngrams(**settings)
    column: Any = transform.apply_columns({"text": BytesColumn.of(TEXTS)})["text"]
    expected = {"n_features": 1 << 18, **theirs}
    vectorizer = HashingVectorizer(lowercase=False, token_pattern=r"\w+", **expected)
    assert_same(column, vectorizer.transform(TEXTS))
    assert transform.apply({"text": TEXTS[5]}, DRAW)["text"] == column[5]


def test_character_ngrams_are_joined_by_nothing() -> None:
    transform = fitted(t.tfidf(unit="character", ngrams=(2, 3)), ["été"])
    assert transform.fitted.terms == ("té", "ét", "été")


def test_a_fitted_value_is_a_value_and_merges_in_any_order() -> None:
    transform = t.tfidf(ngrams=(1, 2), size=200)
    parts = [transform.begin_fit() for _ in range(2)]
    parts[0].add([{"text": text} for text in TRAIN[::2]])
    parts[1].add([{"text": text} for text in TRAIN[1::2]])
    merged = pickle.loads(pickle.dumps(parts[1])).merge(pickle.loads(pickle.dumps(parts[0]))).finish()
    whole = fitted(transform, TRAIN)
    assert merged == whole
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert transform.load_fitted(*whole.save_fitted()) == whole


def test_a_text_without_known_terms_is_an_empty_row() -> None:
    transform = fitted(t.tfidf(), ["a b"])
    column = transform.apply_columns({"text": BytesColumn.of(["", "x y", "b"])})["text"]
    assert column.row_splits.tolist() == [0, 0, 0, 1]
    assert column.to_dense().tolist() == [[0, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: t.tfidf(ngrams=(0, 1)), "ngrams must be the least and the most tokens of a term, got (0, 1)"),
        (lambda: t.tfidf(ngrams=(2, 1)), "ngrams must be the least and the most tokens of a term, got (2, 1)"),
        (lambda: t.tfidf(norm="max"), "norm must be one of l1, l2, none; got 'max'"),  # type: ignore[arg-type]
        (lambda: t.tfidf(unit="byte"), "unit must be one of word, whitespace, character; got 'byte'"),
        (lambda: t.tfidf(min_texts=0), "min_texts must be at least 1, got 0"),
        (lambda: t.hash_ngrams(size=1 << 31), "size must be below 2^31, got 2147483648"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make: Any, what: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(what)}$"):
        make()


def test_terms_that_are_not_learnt_are_said() -> None:
    with pytest.raises(bushel.BushelError, match=r"^tfidf\('text'\) knows no terms yet"):
        t.tfidf().apply({"text": "a"}, DRAW)
