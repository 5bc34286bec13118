"""Scales fitted in parts are those that scikit-learn fits to the whole."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from bushel import transforms as t
from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import SchemaMismatch
from bushel.transforms.chain import merge_in_order
from bushel.transforms.numbers import Quantiles

DRAW = t.Draw(0, 0, 0)


def values(rows: int = 1000, width: int = 3, *, seed: int = 0, missing: float = 0.1) -> Any:
    generator = np.random.default_rng(seed)
    found = generator.normal([5.0, -1e6, 1e-3][:width], [2.0, 1e3, 1e-5][:width], (rows, width))
    found[generator.random(found.shape) < missing] = np.nan
    return found


def fitted(transform: Any, parts: list[Any], *, by_column: bool = True) -> Any:
    """Fit each part on its own, as workers do, and merge."""
    fits = []
    for part in parts:
        fit = transform.begin_fit()
        if by_column:
            fit.add_columns({"x": part})
        else:
            fit.add([{"x": row} for row in part])
        fits.append(pickle.loads(pickle.dumps(fit)))
    return merge_in_order(fits).finish()


SCALERS = [
    (t.standardise("x"), StandardScaler()),
    (t.min_max("x"), MinMaxScaler()),
    (t.min_max("x", low=-1, high=1, clip=True), MinMaxScaler((-1, 1), clip=True)),
    (t.robust_scale("x"), RobustScaler()),
    (t.robust_scale("x", low=0.1, high=0.9), RobustScaler(quantile_range=(10, 90))),
]


@pytest.mark.parametrize(("transform", "scaler"), SCALERS, ids=lambda value: str(value)[:40])
def test_scales_are_those_of_scikit_learn(transform, scaler):
    given = values()
    scaler.fit(given)
    made = fitted(transform, np.array_split(given, 7))
    other = values(200, seed=1)
    np.testing.assert_allclose(made.change(other), scaler.transform(other), rtol=2e-6, atol=1e-6)


def test_mean_and_deviation_are_those_of_scikit_learn_to_twelve_digits():
    given = values(5000)
    scaler = StandardScaler().fit(given)
    made = fitted(t.standardise("x"), np.array_split(given, 13))
    np.testing.assert_allclose(made.fitted.mean, scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(made.fitted.std, scaler.scale_, rtol=1e-9)
    assert made.fitted.count == int(np.isfinite(given).sum(axis=0).min())


@pytest.mark.parametrize(("transform", "scaler"), SCALERS, ids=lambda value: str(value)[:40])
def test_values_that_are_all_the_same_are_not_scaled(transform, scaler):
    given = np.full((50, 2), 0.1)
    made = fitted(transform, np.array_split(given, 3))
    np.testing.assert_allclose(made.change(given), scaler.fit_transform(given), atol=1e-7)
    assert np.isfinite(made.change(given + 1)).all()


@pytest.mark.parametrize("transform", [pair[0] for pair in SCALERS], ids=str)
def test_samples_and_columns_teach_the_same_to_the_last_bit(transform):
    parts = np.array_split(values(missing=0), 5)
    by_column, by_sample = fitted(transform, parts), fitted(transform, parts, by_column=False)
    assert by_column == by_sample
    one = [by_sample.apply({"x": row}, DRAW)["x"] for row in parts[0]]
    np.testing.assert_array_equal(np.stack(one), by_sample.apply_columns({"x": parts[0]})["x"])


def test_channels_of_images_have_their_own_scale_and_all_values_one_if_asked():
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 9, 3)).astype(np.uint8)
    made = fitted(t.standardise("x"), [images])
    np.testing.assert_allclose(made.fitted.mean, images.reshape(-1, 3).mean(axis=0))
    together = fitted(t.standardise("x", each=False), [images])
    np.testing.assert_allclose(together.fitted.mean, [images.mean()])
    np.testing.assert_allclose(together.change(images).mean(), 0, atol=1e-5)


def test_a_feature_that_some_samples_lack_is_fitted_to_the_others_and_stays_absent():
    column = Ragged(np.array([1.0, 3.0]), np.array([0, 1, 1, 2]), np.array([True, False, True]))
    made = fitted(t.standardise("x"), [column])
    assert made.fitted.mean == (2.0,)
    changed = made.apply_columns({"x": column})["x"]
    assert changed.to_list() == [[-1.0], None, [1.0]]
    assert made.apply({"y": 1}, DRAW) == {"y": 1}


def test_lists_of_different_lengths_are_fitted_together_or_not_at_all():
    lists = Ragged.of([[1.0], [2.0, 3.0]])
    with pytest.raises(SchemaMismatch, match="^rows have 1 and 2 positions, and each .* is fitted by itself - at x"):
        fitted(t.standardise("x"), [lists])
    with pytest.raises(SchemaMismatch, match="rows have 1 and 2 positions"):
        fitted(t.standardise("x"), [[np.array([1.0]), np.array([2.0, 3.0])]], by_column=False)
    made = fitted(t.standardise("x", each=False), [lists])
    assert made.fitted.mean == (2.0,)
    assert made.apply_columns({"x": lists})["x"].row_splits.tolist() == [0, 1, 3]


def test_text_has_no_scale():
    with pytest.raises(SchemaMismatch, match="expected numbers, got text - at x"):
        fitted(t.standardise("x"), [BytesColumn.of(["a"])])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: t.min_max("x", low=1, high=1), "low must be below high, got 1 and 1"),
        (lambda: t.robust_scale("x", low=0.9), "low and high must be shares of 0 to 1, the lower first"),
        (lambda: t.clip("x"), "low or high must be given"),
        (lambda: t.clip("x", low=2, high=1), "low must not be above high, got 2 and 1"),
        (lambda: t.bucketise("x"), "edges or buckets must be given, and not both"),
        (lambda: t.bucketise("x", edges=(1.0, 1.0)), "edges must rise"),
        (lambda: t.bucketise("x", buckets=1), "buckets must be 2 to 1,000,000, got 1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_clip_cuts_and_keeps_integers():
    assert t.clip("x", low=0, high=5).change(np.array([-3, 2, 9])).tolist() == [0, 2, 5]
    assert t.clip("x", low=0, high=5).change(np.array([-3, 2, 9])).dtype == np.int64
    assert t.clip("x", high=1.5).change(np.array([1, 2])).tolist() == [1.0, 1.5]
    assert t.clip("x", low=0).change(np.array([2**60 + 1])).tolist() == [2**60 + 1]


def test_log_refuses_what_has_none():
    assert t.log("x").change(np.array([0.0, np.e - 1])) == pytest.approx([0, 1])
    with pytest.raises(SchemaMismatch, match=r"-2.0 \+ 1 has no logarithm - at x"):
        t.log("x").apply({"x": -2.0}, DRAW)


def test_buckets_are_those_of_numpy_and_of_equal_counts_where_learnt():
    given = np.array([-1.0, 0.0, 0.5, 2.0, 9.0])
    assert t.bucketise("x", edges=(0.0, 1.0, 2.0)).change(given).tolist() == np.digitize(given, [0, 1, 2]).tolist()
    many = np.random.default_rng(0).lognormal(size=10_000)
    made = fitted(t.bucketise("x", buckets=4), np.array_split(many, 9))
    assert np.bincount(made.change(many)).tolist() == [2500] * 4
    with pytest.raises(SchemaMismatch, match="NaN is in no bucket"):
        made.change(np.array([np.nan]))
    few = fitted(t.bucketise("x", buckets=4), [np.array([1.0] * 9 + [2.0])])
    assert few.fitted.edges == (1.0,)


def test_quantiles_are_exact_for_a_million_values():
    given = np.random.default_rng(0).normal(size=1 << 20)
    known = Quantiles()
    for part in np.array_split(given, 10):
        known.add(part)
    assert known.at([0.1, 0.5, 0.9]) == np.quantile(given, [0.1, 0.5, 0.9]).tolist()
    assert known.rank_error == 0


def test_quantiles_of_more_values_are_within_the_bound_that_is_told():
    given = np.random.default_rng(0).lognormal(sigma=3, size=5_000_000)
    parts = []
    for part in np.array_split(given, 40):
        parts.append(Quantiles())
        parts[-1].add(part)
    known = merge_in_order(parts)
    assert 0 < known.rank_error < 1e-4
    shares = [0.001, 0.25, 0.5, 0.75, 0.999]
    ordered = np.sort(given)
    for share, value in zip(shares, known.at(shares), strict=True):
        low, high = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
        off = max(low - share * len(given), share * len(given) - high, 0)
        assert off <= known.error + 1
    held = sum(len(part) for part in known._whole) + sum(map(len, known._buffers.values()))
    assert held < 1 << 20
