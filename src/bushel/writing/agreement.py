"""What a build must agree with: the folder it reads, and the dataset it adds to."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from bushel.errors import FileProblem
from bushel.sources.protocol import Source
from bushel.storage import as_path
from bushel.writing.plans import Plan
from bushel.writing.recipe import Recipe
from bushel.writing.site import Site

__all__ = ["check_outside", "check_schema", "same_recipe"]


def check_outside(source: Source, out: Path) -> None:
    """Refuse to write into the folder that is read: the dataset would become part of its own source."""
    path = source.describe().get("path")
    if not isinstance(path, str | PathLike) or not as_path(path).is_dir():
        return
    inside, folder = out.resolve(), as_path(path).resolve()
    if inside != folder and inside.is_relative_to(folder):
        raise FileProblem(out, f"is inside its own source, {path}", help=["Choose a folder outside of it."])


_KEY_HELP = "The key tells which samples are there already: --key COL"


def same_recipe(site: Site, recipe: Recipe, source: dict[str, Any]) -> Recipe:
    """The recipe with its source; that of the dataset for an addition, which may not ask for another."""
    if site.manifest is None:
        return msgspec.structs.replace(recipe, source=source)
    before = msgspec.convert(site.manifest.recipe, Recipe)
    default = Recipe()
    if source.get("key") != before.source.get("key"):
        raise FileProblem(
            site.out,
            f"was built with key {before.source.get('key')!r}, and what is added must be too",
            help=[_KEY_HELP],
        )
    for name in Recipe.__struct_fields__:
        mine, theirs = getattr(recipe, name), getattr(before, name)
        if name not in ("source", "out", "limit") and mine not in (getattr(default, name), theirs):
            raise FileProblem(
                site.out, f"was built with {name} {theirs!r}, and what is added must be too; got {mine!r}"
            )
    return msgspec.structs.replace(before, source=source, limit=recipe.limit)


def check_schema(site: Site, made: Plan) -> None:
    """Refuse an addition whose features are others than those of the dataset."""
    if site.manifest is None:
        return
    if found := site.manifest.schema.differences(made.facts.schema):
        raise FileProblem(
            site.out,
            f"what is to be added differs from what is there: {found[0]}",
            help=[str(difference) for difference in found[1:3]],
        )
