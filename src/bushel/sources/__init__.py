"""Where samples come from."""

from bushel.sources.in_memory import ArraySource, arrays
from bushel.sources.protocol import Block, Listing, Refused, Source

__all__ = ["ArraySource", "Block", "Listing", "Refused", "Source", "arrays"]
