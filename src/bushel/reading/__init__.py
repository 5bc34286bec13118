"""Reading: records at random, in any order, as ready batches."""

from __future__ import annotations

from bushel.reading.batch import Batch, Report
from bushel.reading.dataset import Dataset, Split, mix
from bushel.reading.feed import Feed, batches, measure
from bushel.reading.joining import join
from bushel.reading.layout import Bucket, Dense, Pack, Pad, Sparse
from bushel.reading.order import Order
from bushel.reading.pipeline import Workers
from bushel.reading.raw import open, open_raw

__all__ = [
    "Batch",
    "Bucket",
    "Dataset",
    "Dense",
    "Feed",
    "Order",
    "Pack",
    "Pad",
    "Report",
    "Sparse",
    "Split",
    "Workers",
    "batches",
    "join",
    "measure",
    "mix",
    "open",
    "open_raw",
]
