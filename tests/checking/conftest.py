"""What the tests of checking share: the data of the correct scripts, made once."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("PIL")
    root = tmp_path_factory.mktemp("corpus")
    runpy.run_path(str(SCRIPTS / "make_data.py"))["make"](root)
    return root
