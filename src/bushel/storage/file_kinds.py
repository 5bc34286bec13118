"""What kind of file it is, by its first bytes."""

from __future__ import annotations

__all__ = ["what_is"]

_MAGIC = (
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"BZh", "a bzip2 stream"),
    (b"\xfd7zXZ\x00", "an xz stream"),
    (b"\x28\xb5\x2f\xfd", "a zstd stream"),
    (b"\x04\x22\x4d\x18", "an lz4 stream"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x80\x05\x95", "a Python pickle"),
    (b"version https://git-lfs", "a Git LFS pointer"),
    (b"<!DOCTYPE html", "an HTML page"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
)


def what_is(head: bytes) -> str | None:
    """Name a file by its first bytes, if they are known."""
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    if head[257:262] == b"ustar":
        return "a tar archive"
    if len(head) >= 4 and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head):
        return "JSON text" if head.lstrip()[:1] in b"{[" else "plain text"
    return None
