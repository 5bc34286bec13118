"""Building datasets: raw files to shards, in parallel, resumable, byte for byte the same."""

from bushel.building.output.provenance import Provenance, provenance
from bushel.building.output.writer import Lost, NarrowedValues, Repaired, Writer, repair
from bushel.building.planning.planner import Outline, plan
from bushel.building.recipe import Balance, Constraint, Recipe
from bushel.building.run import Built, Run, build, build_recipe

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
