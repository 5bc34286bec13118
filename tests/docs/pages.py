"""The blocks of a page of documentation: which run, which only show something, and why some cannot run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]

# The only reasons to leave out a block. The page gives one in a comment above the block: <!-- needs a network -->
NEEDS = ("a network", "a cluster", "a GPU", "PyTorch", "JAX", "webdataset", "MosaicML Streaming")
# Modules that a block may need; `make test-frameworks` has the first two.
_FRAMEWORKS = {"PyTorch": "torch", "JAX": "jax", "webdataset": "webdataset", "MosaicML Streaming": "streaming"}

_BLOCK = re.compile(r"(?:<!-- needs ([^>]+?) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block. `needs` is why it cannot run here; None where it can."""

    page: str
    line: int
    language: str
    text: str
    needs: str | None

    @property
    def can_run(self) -> bool:
        """Whether all that it needs is here."""
        if self.needs is None:
            return True
        return self.needs in _FRAMEWORKS and find_spec(_FRAMEWORKS[self.needs]) is not None

    @property
    def commands(self) -> list[str]:
        """The command lines of a `console` block; a backslash joins the next line."""
        text = self.text.replace("\\\n", "")
        return [line[2:].partition("  #")[0].strip() for line in text.splitlines() if line.startswith("$ ")]


def blocks_of(page: str) -> list[Block]:
    """All blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page, text.count("\n", 0, match.start(3)), match[2], match[3], match[1])
        for match in _BLOCK.finditer(text)
    ]
