"""The page of all options of sources: `python -m bushel.sources.options_page > docs/source-options.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from bushel.sources.opening import SOURCES
from bushel.sources.options import Option, options_of

__all__ = ["options_page"]

_HEAD = """# Options of sources

Made from the signatures of the sources: `python -m bushel.sources.options_page > docs/source-options.md`. Give them as
keywords in Python, in the `[source]` table of a recipe, or as `--set NAME=VALUE` to `bushel build`.
"""


def options_page() -> str:
    """All options as Markdown."""
    return "\n".join([_HEAD, *(line for kind in sorted(SOURCES) for line in _section(kind))])


def _section(kind: str) -> Iterator[str]:
    make = SOURCES[kind]
    yield f"## {kind}\n\n{(make.__doc__ or '').splitlines()[0]}\n"
    yield "| option | what it is | default |\n|---|---|---|"
    for option in options_of(make).values():
        help, default = _split(option)
        words = f" ({', '.join(f'`{word}`' for word in option.choices)})" if option.choices else ""
        yield f"| `{option.name}` | {help}{words} | {default} |"
    yield ""


def _split(option: Option) -> tuple[str, str]:
    """The help without the default, and the default."""
    found = re.fullmatch(r"(.*?) \(default: (.*)\)", option.help)
    if found is not None:
        return found[1], found[2]
    return option.help, "must be given" if option.is_required else _shown(option.default)


def _shown(default: Any) -> str:
    if default in (None, ()):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    sys.stdout.write(options_page())
