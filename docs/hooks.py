"""What MkDocs does not do by itself: pages from the root of the repository, and a look at what the site would load."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
FROM_ROOT = {"README.md": "index.md"} | {name: name for name in ("FORMAT.md", "CHANGELOG.md", "CONTRIBUTING.md")}

_CODE = r"^```.*?^```$|`[^`\n]*`"
_LINK = r"\[(?P<text>[^]\n]*)\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
_CODE_OR_LINK = re.compile(f"{_CODE}|{_LINK}", re.DOTALL | re.MULTILINE)
_ADDRESS = r"[\"']?(?:https?:)?//[^\"'\s>]+"
_LOADED = re.compile(rf"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)={_ADDRESS}|@import|url\({_ADDRESS}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the pages that lie in the root of the repository."""
    for name, place in FROM_ROOT.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of the repository links of the site. What is not on the site is named, not linked."""
    at_root = {place: name for name, place in FROM_ROOT.items()}
    source = at_root.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def on_site(found: re.Match[str]) -> str:
        to = found["to"]
        if to is None or re.match(r"\w+:", to):
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), to))
        uri = FROM_ROOT.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(uri) is None:
            return f"`{target}`" if (ROOT / target).exists() else found[0]
        relative = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"[{found['text']}]({relative}{found['anchor'] or ''})"

    return _CODE_OR_LINK.sub(on_site, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Stop if a page would load something from the network."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css"):
            loaded = _LOADED.search(path.read_text())
            if loaded:
                raise PluginError(f"{path.relative_to(config.site_dir)} would load from the network: {loaded[0]}")
