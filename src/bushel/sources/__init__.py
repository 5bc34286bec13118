"""Where samples come from."""

from bushel.sources.image_folders import ImageSource, images
from bushel.sources.in_memory import ArraySource, arrays
from bushel.sources.protocol import Block, Listing, Refused, Source
from bushel.sources.tables import TableSource, table

__all__ = [
    "ArraySource",
    "Block",
    "ImageSource",
    "Listing",
    "Refused",
    "Source",
    "TableSource",
    "arrays",
    "images",
    "table",
]
