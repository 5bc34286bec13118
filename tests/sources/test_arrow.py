"""Arrow in workers: it converts values without what it does not need."""

import sys

import pytest

from bushel.parallel import Crew


def convert(number: int) -> tuple[list[int], bool]:
    import pyarrow as pa

    return pa.array([number, None]).fill_null(0).to_pylist(), "pandas" in sys.modules


def test_workers_that_run_no_code_of_users_do_without_pandas_where_it_is_installed() -> None:
    pytest.importorskip("pandas")
    found = {}
    for modules in ((), ("pyarrow.csv", "bushel.sources.tables.arrow:spare_pandas")):
        crew = Crew()
        crew.hire(1, modules)
        try:
            found[modules] = list(crew.run(convert, [7]))
        finally:
            crew.close()
    assert list(found.values()) == [[([7, 0], True)], [([7, 0], False)]]
