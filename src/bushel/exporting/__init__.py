"""Datasets in the formats of others."""

from bushel.exporting.datasets import FORMATS, Exported, export_dataset

__all__ = ["FORMATS", "Exported", "export_dataset"]
