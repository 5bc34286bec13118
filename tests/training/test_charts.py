"""Charts of a report: what stands at their axes can be read."""

import re

import pytest

from bushel.training.report.charts import lines


def levels(*values: float) -> list[str]:
    return re.findall(r'text-anchor="end">([^<]*)<', lines("samples/s", {"train": values}))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (3_100, 12_345, ["3,100", "5,410", "7,720", "10,000", "12,300"]),
        (0, 1, ["0", "0.25", "0.5", "0.75", "1"]),
        (0.00001, 0.00002, ["1e-05", "1.3e-05", "1.5e-05", "1.8e-05", "2e-05"]),
        (-2_000_000, 2_000_000, ["-2e+06", "-1e+06", "0", "1e+06", "2e+06"]),
    ],
)
def test_levels_are_written_as_people_write_them_and_fit_the_margin(low, high, expected):
    found = levels(low, high)
    assert found == expected
    assert max(map(len, found)) <= 7
