"""Features that alone tell the label, and what makes one odd rather than good."""

from typing import Any

import numpy as np
import pytest

from bushel.records.leaks import Column, find_leaks

DRAW = np.random.default_rng(4)
ROWS = 600
LABELS = (DRAW.random(ROWS) < 0.4).astype(np.int64)
AGE = Column("age", DRAW.normal(30, 10, ROWS))
SEX = Column("sex", (LABELS ^ (DRAW.random(ROWS) < 0.2)).astype(float), is_number=False)


def test_a_column_that_only_one_class_has_tells_by_being_there() -> None:
    is_there = (LABELS == 1) ^ (DRAW.random(ROWS) < 0.02)
    boat = Column("boat", np.where(is_there, DRAW.integers(1, 20, ROWS), np.nan).astype(float))
    (leak,) = find_leaks([boat, AGE, SEX], LABELS)
    assert (leak.feature, leak.how, leak.is_odd) == ("boat", "presence", True)
    assert 0.95 < leak.score < 1.0
    assert leak.baseline == pytest.approx((LABELS == 0).mean())


def test_a_number_that_is_zero_for_one_class_tells_by_its_size() -> None:
    refund = Column("refund_amount", np.where(LABELS == 1, DRAW.gamma(2, 20, ROWS), 0.0))
    (leak,) = find_leaks([refund, AGE, SEX], LABELS)
    assert (leak.feature, leak.how, leak.is_odd, leak.why) == (
        *("refund_amount", "threshold", True),
        "no other feature comes near it",
    )
    assert leak.score > 0.99 > 0.9 > leak.others


def test_the_label_under_another_name_is_a_copy() -> None:
    (leak,) = find_leaks([Column("diagnosis", LABELS * 3.0 + 1, is_number=False), AGE], LABELS)
    assert (leak.how, leak.score, leak.is_odd) == ("copy", 1.0, True)


def test_a_row_number_over_sorted_rows_only_counts() -> None:
    order = np.argsort(LABELS, kind="stable")
    (leak,) = find_leaks([Column("row", np.arange(ROWS, dtype=float)), AGE], LABELS[order])
    assert leak.is_odd
    assert "only counts" in leak.why


def test_good_features_come_in_company() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    iris = datasets.load_iris()
    found = find_leaks([Column(str(at), column) for at, column in enumerate(iris.data.T)], iris.target)
    assert [leak.feature for leak in found] == ["3", "2"]
    assert not any(leak.is_odd for leak in found)


@pytest.mark.parametrize("kind", ["wine", "breast_cancer", "digits"])
def test_a_task_that_needs_several_features_has_no_leak(kind: str) -> None:
    data: Any = getattr(pytest.importorskip("sklearn.datasets"), f"load_{kind}")()
    assert find_leaks([Column(str(at), column) for at, column in enumerate(data.data.T)], data.target) == []


def test_a_mark_in_one_corner_is_odd_and_a_bright_picture_is_not() -> None:
    noise = DRAW.normal(size=(ROWS, 16))
    marked, bright = noise.copy(), noise + 6.0 * LABELS[:, None]
    marked[:, 5] += 9.0 * LABELS
    for pixels, is_odd in ((marked, True), (bright, False)):
        columns = [Column(f"image at {at}", pixels[:, at], of="image") for at in range(16)]
        (leak,) = find_leaks(columns, LABELS)
        assert leak.is_odd is is_odd
    assert find_leaks([AGE, SEX], LABELS) == []


def test_labels_of_one_class_have_no_leak() -> None:
    assert find_leaks([AGE], np.zeros(ROWS, np.int64)) == []
    assert find_leaks([], np.zeros(0, np.int64)) == []
