"""CONTRIBUTING.md names files and names that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:src|tests|docs)/[\w./-]+)`", PAGE)))
NAMES = {
    "_OPENERS": "src/bushel/sources/tables/table.py",
    "CODECS": "src/bushel/storage/file_kinds.py",
    "SOURCES": "src/bushel/sources/opening.py",
    "FolderSource": "src/bushel/sources/folders.py",
    "BUILD_FLAGS": "src/bushel/cli/build_flags.py",
    "changes_of": "src/bushel/cli/build_flags.py",
    "_COMMANDS": "src/bushel/cli/__init__.py",
    "METRICS": "src/bushel/training/verdict/metrics.py",
    "RunFacts": "src/bushel/checking/rules/run_rules.py",
    "ROOMS": "tests/test_layers.py",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_where_the_page_says(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert re.search(rf"^(?:class |def )?{name}\b", (ROOT / NAMES[name]).read_text(), re.MULTILINE)
