"""American spellings of names that are British: the one table, which Python, recipes and the command line ask."""

from __future__ import annotations

__all__ = ["AMERICAN", "american_of", "british"]

# Only names that users type. What is written (recipes, manifests, `--json`) has the British name, so that a file
# does not depend on who wrote it.
AMERICAN = {
    "bucketize": "bucketise",
    "convert_color": "convert_colour",
    "normalize": "normalise",
    "optimizer": "optimiser",
    "standardize": "standardise",
    "tokenize": "tokenise",
    "tokenize_file": "tokenise_file",
}
_BACK = {british: american for american, british in AMERICAN.items()}


def british(name: str) -> str:
    """The name that bushel knows, for one in either spelling."""
    return AMERICAN.get(name, name)


def american_of(name: str) -> str | None:
    """The other spelling of a name; None if there is none."""
    return _BACK.get(name)
