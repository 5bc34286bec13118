"""What the tests of checking share: the data of the correct scripts, made once."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("PIL")
    root = tmp_path_factory.mktemp("corpus")
    runpy.run_path(str(SCRIPTS / "make_data.py"))["make"](root)
    return root


@pytest.fixture(scope="session")
def warm() -> Iterator[None]:
    """Scripts are forked from a process that has imported TensorFlow."""
    pytest.importorskip("tensorflow")
    from bushel.checking.running import warm_runs

    with warm_runs():
        yield
