"""Writing records: what reading and training never import."""

from bushel.writing.building import Built, Outline, Run, build, build_recipe, plan
from bushel.writing.recipe import Constraint, Recipe
from bushel.writing.salvage import Lost, Repaired, repair
from bushel.writing.writer import NarrowedValues, Writer

__all__ = [
    "Built",
    "Constraint",
    "Lost",
    "NarrowedValues",
    "Outline",
    "Recipe",
    "Repaired",
    "Run",
    "Writer",
    "build",
    "build_recipe",
    "plan",
    "repair",
]
