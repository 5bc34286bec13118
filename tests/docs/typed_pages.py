"""The Python code of the documentation, page by page, as mypy --strict and pyright see it.

    python tests/docs/typed_pages.py

A user who has types gets no error for what a page shows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import PAGES, ROOT, blocks_of

# Where the types of another library are wrong about itself: what the page does with it runs, and the page is right.
THEIRS = {
    "coming_from_hugging_face": r"__getitem__",  # datasets says that a row is a list
    "how_do_i": r'"fit"',  # keras says that a model which it loads may be None
    "serving": r"callable|called",  # the same
    "tensorflow": r"save_freq",  # keras says that it is a text, and takes numbers
    "tfds": r"TopLevelFeature|FeatureConnector|subscriptable|positional",  # it says that features have no names
}


def write_pages(folder: Path) -> list[str]:
    """One module per page, with its lines where the page has them; returns the names."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = []
    for page in PAGES:
        text = ""
        for block in blocks_of(page):
            if block.language == "python":
                text += "\n" * max(0, block.line - text.count("\n")) + block.text.rstrip() + "\n"
        if text:
            name = page.removeprefix("docs/").removesuffix(".md").replace("/", "_").replace("-", "_")
            (folder / f"page_{name}.py").write_text(text)
            names.append(name)
    return names


def mypy_errors(folder: Path) -> Iterator[str]:
    """What mypy --strict says about the pages."""
    # Frameworks that are not installed here are unknown to it, and so is what derives from them.
    lenient = ["--ignore-missing-imports", "--allow-subclassing-any", "--allow-untyped-decorators"]
    command = [sys.executable, "-m", "mypy", "--strict", *lenient, "--config-file", os.devnull]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "pages")]
    files = [str(path) for path in sorted(folder.glob("page_*.py"))]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    said = subprocess.run(
        [*command, *cache, *files], capture_output=True, check=False, text=True, env=environment, cwd=folder
    )
    if said.returncode not in (0, 1):
        raise SystemExit(f"mypy did not run: {said.stdout}{said.stderr}")
    yield from (line for line in said.stdout.splitlines() if line.startswith("page_") and ": error:" in line)


def pyright_errors(folder: Path) -> Iterator[str]:
    """What pyright says about the pages, but for what other libraries say about themselves."""
    unknown = dict.fromkeys(("reportMissingImports", "reportMissingModuleSource", "reportUnusedExpression"), False)
    settings = {"include": ["page_*.py"], "extraPaths": [str(ROOT / "src")], **unknown}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run(command, capture_output=True, check=False, text=True, cwd=folder)
    try:
        found = json.loads(said.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        sys.stderr.write(f"pyright could not run, so only mypy looked: {said.stderr.strip().splitlines()[-1:]}\n")
        return
    for one in found:
        page = Path(one["file"]).stem.removeprefix("page_")
        is_theirs = page in THEIRS and re.search(THEIRS[page], one["message"]) is not None
        if one["severity"] == "error" and not is_theirs:
            yield f"page_{page}.py:{one['range']['start']['line'] + 1}: pyright: {one['message']}"


def main() -> int:
    """Print what is wrong; the number of errors decides the exit code."""
    folder = ROOT / "build" / "typed"
    names = write_pages(folder)
    errors = [*mypy_errors(folder), *pyright_errors(folder)]
    sys.stdout.write("\n".join([*errors, f"{len(names)} pages, {len(errors)} errors\n"]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
