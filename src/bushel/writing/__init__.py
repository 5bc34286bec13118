"""Writing records: what reading and training never import."""

from bushel.writing.building import Built, Run, build, build_recipe
from bushel.writing.origins import Provenance, provenance
from bushel.writing.outlines import Outline, plan
from bushel.writing.recipe import Balance, Constraint, Recipe
from bushel.writing.salvage import Lost, Repaired, repair
from bushel.writing.writer import NarrowedValues, Writer

__all__ = [
    "Balance",
    "Built",
    "Constraint",
    "Lost",
    "NarrowedValues",
    "Outline",
    "Provenance",
    "Recipe",
    "Repaired",
    "Run",
    "Writer",
    "build",
    "build_recipe",
    "plan",
    "provenance",
    "repair",
]
