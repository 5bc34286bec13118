"""Which files are images by their names."""

from __future__ import annotations

import os

__all__ = ["IMAGE_SUFFIXES", "is_image_name", "leave_out"]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_SUFFIXES = tuple(suffix.encode() for suffix in IMAGE_SUFFIXES)
_OTHER_IMAGES = (b".heic", b".heif", b".avif", b".jp2", b".psd", b".svg", b".raw", b".cr2", b".nef", b".dng", b".ico")


def is_image_name(name: str) -> bool:
    """Whether a file is an image by its name."""
    return leave_out(os.fsencode(name)) is None


def leave_out(name: bytes) -> str | None:
    """What a file is, if it is no image that can be read."""
    lower = name.lower()
    if lower.endswith(_SUFFIXES):
        return None
    if lower.endswith(_OTHER_IMAGES):
        return "images in formats that are not read"
    return "files that are no images"
