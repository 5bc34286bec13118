"""Compressions: their names, suffixes and first bytes, and how each is opened."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

__all__ = ["CODECS", "SHARD_CODECS", "Compression", "compression_named", "inflated", "without_compression"]

Compression: TypeAlias = Literal["gzip", "zlib"]  # those that shards may have


class Codec(NamedTuple):
    """One compression."""

    suffixes: tuple[str, ...]  # the first is the one that is written
    magic: bytes = b""  # what a stream begins with; empty if its first bytes do not tell
    is_text: bool = False  # text and tables may have it
    window_bits: int = 0  # as zlib counts them, where shards may have it


CODECS = {
    "gzip": Codec((".gz", ".gzip"), b"\x1f\x8b", is_text=True, window_bits=31),
    "zlib": Codec((".zz", ".zlib"), window_bits=15),
    "bz2": Codec((".bz2",), b"BZ", is_text=True),
    "zstd": Codec((".zst",), b"\x28\xb5", is_text=True),
    "lz4": Codec((".lz4",), b"\x04\x22", is_text=True),
    "xz": Codec((".xz",), b"\xfd7"),
}
SHARD_CODECS = {name: codec for name, codec in CODECS.items() if codec.window_bits}
_SUFFIXES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)


def without_compression(name: str) -> str:
    """A name without the suffix of a compression: `rows.csv` of `rows.csv.gz`."""
    found = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(found)]


def compression_named(name: str) -> str | None:
    """The compression that the suffix of a file tells."""
    suffix = Path(name).suffix.lower()
    return next((name for name, codec in CODECS.items() if suffix in codec.suffixes), None)


def inflated(file: IO[bytes] | str, compression: str) -> IO[bytes]:
    """A compressed file as a stream of what it holds."""
    if compression == "gzip":
        from isal import igzip

        return igzip.open(file, "rb")  # type: ignore[no-any-return]
    import pyarrow as pa

    stream: Any = pa.input_stream(file, compression=compression)
    return stream  # type: ignore[no-any-return]
