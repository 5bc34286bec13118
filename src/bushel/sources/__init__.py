"""Where samples come from."""

from bushel.sources.protocol import Block, Listing, Refused, Source

__all__ = ["Block", "Listing", "Refused", "Source"]
