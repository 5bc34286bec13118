"""Arrow in workers: it converts values without what it does not need."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bushel
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


def count_threads(path: Path) -> tuple[int, int]:
    source = bushel.sources.table(path)
    before = len(list(Path("/proc/self/task").iterdir()))
    assert sum(len(block.rows) for block in source.read(0, None)) == 2000
    return before, len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux lists them")
def test_workers_read_parquet_without_threads_of_arrow_each_of_which_would_keep_memory(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"x{i}": list(range(2000)) for i in range(8)}), tmp_path / "rows.parquet")
    crew = Crew()
    crew.hire(1)
    try:
        ((before, after),) = crew.run(count_threads, [tmp_path / "rows.parquet"])
    finally:
        crew.close()
    assert after <= before + 1  # the one that reads files
