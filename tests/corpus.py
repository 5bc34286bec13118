"""Real text that every Python carries: the documentation of its own modules."""

import functools
import importlib
import inspect

MODULES = [
    "argparse",
    "asyncio",
    "collections",
    "email",
    "inspect",
    "json",
    "logging",
    "os",
    "pathlib",
    "re",
    "unittest",
]
ODD = [
    "",
    "   \t\n",
    "Straße ÅNGSTRÖM İstanbul ΣΊΣΥΦΟΣ ﬁne ½",
    "日本語のテキスト 東京\u3000大阪",
    "हिन्दी में लिखा",
    "e\u0301 \u00e9 don't e-mail a_b 3.14 \u200bzero\xa0width",
    "[UNK] <pad> \x00nul \x0cfeed",
    "😀 emoji 👩‍💻",
]


@functools.cache
def documents() -> tuple[str, ...]:
    """Docstrings, each once, and a few odd texts."""
    found: dict[str, None] = {}
    for module in map(importlib.import_module, MODULES):
        for value in vars(module).values():
            if text := inspect.getdoc(value):
                found[text] = None
    return (*found, *ODD)
