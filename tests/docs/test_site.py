"""The site of documentation: every page is in its menu, every link leads somewhere, every public name has an entry."""

import ast
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
AT_ROOT = ("README.md", "FORMAT.md", "CHANGELOG.md", "CONTRIBUTING.md")
LINKING = [*AT_ROOT, *sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md"))]

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)|<img[^>]*\bsrc=\"([^\"]+)\"")


def links_of(page: str) -> list[str]:
    text = _CODE.sub("", (ROOT / page).read_text())
    return [found[0] or found[1] for found in _LINK.findall(text)]


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", LINKING)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    for link in links_of(page):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link} leads nowhere"
        if anchor:
            assert anchor in anchors_of(target), f"{page}: {link}: there is no such heading"


def test_every_page_is_in_the_menu_once() -> None:
    menu = re.findall(r"[\w/.-]+\.md", str(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(menu) == sorted([*pages, "index.md", *AT_ROOT[1:]])


def test_every_public_name_is_in_the_reference() -> None:
    import bushel

    text = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: bushel\.([\w.]+)$", text, re.MULTILINE)
    assert set(bushel.__all__) - {"__version__"} <= set(shown)
    assert set(bushel._MODULES) <= {name.partition(".")[0] for name in shown}
    assert len(shown) == len(set(shown))
    for name in shown:
        module, _, rest = name.rpartition(".")
        if module not in ("", "torch", "jax"):
            assert hasattr(import_module(f"bushel.{module}"), rest), (
                f"the reference names bushel.{name}, which does not exist"
            )


@pytest.mark.parametrize("name", ["bushel.1", "reference/commands.md", "checks.md", "source-options.md"])
def test_a_page_made_from_the_code_says_what_the_code_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    manual = import_module("manual")
    assert (DOCS / name).read_text() == manual.PAGES[name](), "write it again: python docs/manual.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_the_man_page_is_set_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbu", str(DOCS / "bushel.1")], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "_quarantine.jsonl" in done.stdout


def test_every_message_that_is_explained_is_one_that_bushel_prints() -> None:
    """`…` stands for what differs; what is around it must be in one string of the sources."""
    printed = "\n".join(_strings_of(path) for path in sorted((ROOT / "src" / "bushel").rglob("*.py")))
    page = (DOCS / "troubleshooting.md").read_text()
    headings = re.findall(r"^### (.*`.*)$", page, re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`([^`]+)`", heading)]
    assert len(messages) > 30
    for message in messages:
        for fixed in message.split("…"):
            if len(fixed.strip(" '():,;")) > 3:
                assert fixed.strip(" '") in printed, f"nothing prints {message!r}: {fixed!r} is in no string"


def _strings_of(path: Path) -> str:
    """All strings of a module, one per line; of those with values in them, the parts between."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
