"""CONTRIBUTING.md names files and names that are there."""

import importlib
import re
import struct
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:src|tests|docs)/[\w./-]+)`", PAGE)))
NAMES = {
    "_OPENERS": "src/bushel/sources/tables/table.py",
    "BINARY_FILES": "src/bushel/sources/tables/table_files.py",
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


def block_with(word: str, module: str) -> dict[str, Any]:
    """The code block of the page that holds a word, run in the module that it is for."""
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if word in block)
    scope = dict(vars(importlib.import_module(module)))
    exec(code.replace("{..., ", "{"), scope)
    return scope


def test_the_image_format_of_the_page_reads_headers() -> None:
    kind = block_with("FileKind", "bushel.storage.file_kinds")["KINDS"][-1]
    assert (kind.source, kind.suffixes) == ("images", (".qoi",))
    header = block_with("_qoi", "bushel.pixels.headers")["FORMATS"]["qoi"].parse(
        struct.pack(">4sIIBB", b"qoif", 3, 2, 4, 0)
    )
    assert (header.width, header.height, header.channels) == (3, 2, 4)


def test_the_transform_of_the_page_changes_samples() -> None:
    negate = block_with("Negate", "bushel.transforms.numbers")["negate"]
    assert negate("x").apply({"x": 2.0}, None)["x"] == -2.0


def test_the_rule_about_scripts_of_the_page_finds_its_fault(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    import bushel
    from bushel.checking.findings import all_rules, rules_as_they_were

    all_rules()
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\nimport keras\nmodel = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')\nmodel.fit(np.random.rand(5, 2), np.random.rand(5))\n"
    )
    with rules_as_they_were():
        block_with("too_few_rows", "bushel.checking.running.column_rules")
        (found,) = bushel.check(script=script, run=True, select=["EXE099"])
    assert (found.message, found.locations[0].line, found.known) == ("5 rows are trained on", 5, "seen")
