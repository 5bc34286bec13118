"""Where samples come from."""

from bushel.sources.in_memory import ArraySource, arrays
from bushel.sources.protocol import Block, Listing, Refused, Source
from bushel.sources.tables import TableSource, table

__all__ = ["ArraySource", "Block", "Listing", "Refused", "Source", "TableSource", "arrays", "table"]
