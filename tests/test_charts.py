"""Charts of a report: round numbers at their axes, names, and a text instead of the picture."""

import re

import pytest

from bushel.printing import Series, chart, lines, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (3_100, 12_345, [2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 14_000]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.31, 0.87, [0.2, 0.4, 0.6, 0.8, 1.0]),
        (1, 20, [0, 5, 10, 15, 20]),
        (7, 7, [2, 4, 6, 8, 10, 12]),
        (-2_000_000, 2_000_000, [-2_000_000, -1_000_000, 0, 1_000_000, 2_000_000]),
    ],
)
def test_ticks_are_round_and_hold_all_values(low: float, high: float, expected: list[float]) -> None:
    found = ticks([low, high])
    assert found == pytest.approx(expected)
    assert found[0] <= low <= high <= found[-1]


def test_what_stands_at_an_axis_fits_the_margin() -> None:
    for values in ([0.00001, 0.00002], [-2e6, 2e6], [3_100, 12_345], [0.123456, 0.123457]):
        page = lines("samples/s by epoch", {"train": values})
        assert max(map(len, re.findall(r'text-anchor="end">([^<]*)<', page))) <= 9


def test_a_chart_says_in_words_what_it_shows_and_names_its_axes() -> None:
    page = lines("loss by epoch", {"train": [1.5, 0.25], "validation": [1.4, None]}, y="loss", mark=(2, "best <epoch>"))
    assert 'aria-label="loss by epoch: train from 1.5 to 0.25, validation from 1.4 to 1.4"' in page
    assert ">epoch</text>" in page
    assert ">loss</text>" in page
    assert "best &lt;epoch&gt;" in page
    assert 'class="mark"' in page


def test_values_that_are_not_numbers_are_left_out() -> None:
    points = [(0.0, 1.0), (1.0, float("nan")), (2.0, float("inf")), (3.0, 2.0)]
    page = chart("errors", [Series("", points, "dots")], x="true", y="predicted")
    assert page.count("<circle") == 2
    assert chart("nothing", [Series("", [(0.0, float("nan"))])], x="a", y="b") == ""
