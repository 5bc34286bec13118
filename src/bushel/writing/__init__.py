"""Writing records: what reading and training never import."""

from bushel.writing.salvage import Lost, Repaired, repair
from bushel.writing.writer import NarrowedValues, Writer

__all__ = ["Lost", "NarrowedValues", "Repaired", "Writer", "repair"]
