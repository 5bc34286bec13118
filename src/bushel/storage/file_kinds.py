"""Kinds of files and compressions, by name and first bytes. Every list of suffixes is made from these tables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from bushel.errors import missing_package

__all__ = [
    "CODECS",
    "CORE_IMAGES",
    "IMAGES",
    "KINDS",
    "SHARD_CODECS",
    "Compression",
    "FileKind",
    "compression_named",
    "inflated",
    "kind_of_bytes",
    "kind_of_name",
    "suffixes_of",
    "what_is",
    "without_compression",
]


Compression: TypeAlias = Literal["gzip", "zlib"]  # those that shards may have


class Codec(NamedTuple):
    """One compression."""

    suffixes: tuple[str, ...]  # the first is the one that is written
    magic: bytes = b""  # first bytes of a stream; empty if they do not identify it
    is_text: bool = False  # text and tables may have it
    window_bits: int = 0  # zlib's number, if shards may use it


CODECS = {
    "gzip": Codec((".gz", ".gzip"), b"\x1f\x8b", is_text=True, window_bits=31),
    "zlib": Codec((".zz", ".zlib"), window_bits=15),
    "bz2": Codec((".bz2",), b"BZ", is_text=True),
    "zstd": Codec((".zst",), b"\x28\xb5", is_text=True),
    "lz4": Codec((".lz4",), b"\x04\x22", is_text=True),
    "xz": Codec((".xz",), b"\xfd7"),
}
assert all(len(codec.magic) == 2 for codec in CODECS.values() if codec.is_text), "text is recognised by two bytes"
SHARD_CODECS = {name: codec for name, codec in CODECS.items() if codec.window_bits}
_SUFFIXES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)


def without_compression(name: str) -> str:
    """A name without the suffix of a compression: `rows.csv` of `rows.csv.gz`."""
    lower = name.lower()
    if not lower.endswith(_SUFFIXES):
        return name
    return name[: len(name) - len(next(suffix for suffix in _SUFFIXES if lower.endswith(suffix)))]


def compression_named(name: str) -> str | None:
    """The compression by the suffix of a file; the number of a shard may follow: `x.gz-00000-of-00003`."""
    suffix = Path(re.sub(r"-\d+-of-\d+$", "", name)).suffix.lower()
    return next((name for name, codec in CODECS.items() if suffix in codec.suffixes), None)


def inflated(file: IO[bytes] | str, compression: str) -> IO[bytes]:
    """A compressed file as a stream of its content."""
    if compression == "gzip":
        from isal import igzip

        return igzip.open(file, "rb")  # type: ignore[no-any-return]
    try:
        import pyarrow as pa
    except ImportError:
        raise missing_package("pyarrow", extra="tables", purpose=f"reading {compression}") from None
    stream: Any = pa.input_stream(file, compression=compression)
    return stream  # type: ignore[no-any-return]


class FileKind(NamedTuple):
    """One kind of file."""

    name: str
    what: str  # in messages: "it is a PNG image"
    source: str = ""  # the source that reads it; empty if none does
    suffixes: tuple[str, ...] = ()
    magic: bytes = b""  # a pattern that its first bytes match; empty if they say nothing
    number: int = 0  # its number in the native core; 0 if the core does not know it


KINDS = (
    FileKind("jpeg", "a JPEG image", "images", (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), rb"\xff\xd8\xff", 1),
    FileKind("png", "a PNG image", "images", (".png", ".apng"), rb"\x89PNG\r\n\x1a\n", 2),
    FileKind("gif", "a GIF image", "images", (".gif",), rb"GIF8", 3),
    FileKind("bmp", "a BMP image", "images", (".bmp", ".dib"), rb"BM.{4}\0\0\0\0", 5),
    FileKind("webp", "a WebP image", "images", (".webp",), rb"RIFF.{4}WEBP", 4),
    FileKind("tiff", "a TIFF image", "images", (".tif", ".tiff"), rb"II[*+]\0|MM\0[*+]", 6),
    FileKind(
        "other image",
        "an image in a format that bushel does not read",
        suffixes=(".heic", ".heif", ".avif", ".jp2", ".psd", ".svg", ".raw", ".cr2", ".nef", ".dng", ".ico"),
    ),
    FileKind("csv", "a CSV file", "table", (".csv",)),
    FileKind("tsv", "a TSV file", "table", (".tsv", ".tab")),
    FileKind("jsonl", "JSON lines", "table", (".jsonl", ".ndjson", ".json")),
    FileKind("parquet", "a Parquet file", "table", (".parquet", ".pq"), rb"PAR1"),
    FileKind("arrow", "an Arrow file", "table", (".arrow", ".feather", ".ipc"), rb"ARROW1"),
    FileKind("npy", "a NumPy file", "arrays", (".npy",), rb"\x93NUMPY"),
    FileKind("npz", "a NumPy archive", "arrays", (".npz",)),
    FileKind("text", "a text file", "text", (".txt", ".text", ".md")),
    FileKind("tar", "a tar archive", "webdataset", (".tar", ".tgz"), rb".{257}ustar"),
    FileKind("tfrecord", "a TFRecord file", "records", (".tfrecord", ".tfrecords", ".tfrec")),
    FileKind(
        "video",
        "a video",
        "video",
        (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".wmv", ".flv", ".3gp", ".ogv"),
    ),
    FileKind("wav", "a WAV file", "audio", (".wav",), rb"RIFF.{4}WAVE"),
    FileKind("flac", "a FLAC file", "audio", (".flac",), rb"fLaC"),
    FileKind("mp3", "an MP3 file", "audio", (".mp3",), rb"ID3|\xff[\xfb\xf3\xf2]"),
    FileKind("ogg", "an Ogg file", "audio", (".ogg", ".oga", ".opus"), rb"OggS"),
    FileKind(
        "sound",
        "a sound file",
        "audio",
        (".m4a", ".aac", ".aif", ".aiff", ".aifc", ".au", ".snd", ".gsm", ".wma", ".amr"),
    ),
    FileKind("excel", "an Excel file", "excel", (".xlsx", ".xlsm")),
    FileKind(
        "ole", "an Excel or Word file of before 2007 (save it as .xlsx)", magic=rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    ),
    FileKind("zip", "a zip archive", magic=rb"PK\x03\x04"),
    FileKind("hdf5", "an HDF5 file", "arrays", (".h5", ".hdf5"), magic=rb"\x89HDF\r\n\x1a\n"),
    FileKind("bzip2", "a bzip2 stream", magic=rb"BZh"),
    FileKind("xz", "an xz stream", magic=rb"\xfd7zXZ\0"),
    FileKind("zstd", "a zstd stream", magic=rb"\x28\xb5\x2f\xfd"),
    FileKind("lz4", "an lz4 stream", magic=rb"\x04\x22\x4d\x18"),
    FileKind("sqlite", "an SQLite database", "sql", (".sqlite", ".sqlite3", ".db"), magic=rb"SQLite format 3\0"),
    FileKind("pdf", "a PDF document", magic=rb"%PDF-"),
    FileKind("elf", "a program", magic=rb"\x7fELF"),
    FileKind("pickle", "a Python pickle", magic=rb"\x80[\x04\x05]\x95"),
    FileKind("lfs", "a Git LFS pointer", magic=rb"version https://git-lfs"),
    FileKind("html", "an HTML page", magic=rb"(?i:<!doctype html|<html)"),
    FileKind("xml", "an XML document", magic=rb"<\?xml"),
)
IMAGES = {kind.name: kind for kind in KINDS if kind.source == "images"}
CORE_IMAGES = tuple(sorted((name for name in IMAGES if IMAGES[name].number), key=lambda name: IMAGES[name].number))

_MAGIC = [(re.compile(kind.magic, re.DOTALL), kind) for kind in KINDS if kind.magic]
_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}


_TFX_NAME = re.compile(r"(.*[-_])?tfrecords?(-\d+-of-\d+)?")  # data_tfrecord-00000-of-00001.gz


def has_record_name(name: str) -> bool:
    """Whether a file is named like TFRecords: `x.tfrecord-00000-of-00008`, or as TFX names them."""
    lower = name.lower()
    if "tfrec" not in lower:
        return False
    return ".tfrec" in lower or _TFX_NAME.fullmatch(without_compression(lower)) is not None


def kind_of_name(name: str) -> FileKind | None:
    """The kind of a file by its suffix; the suffix of a compression is ignored."""
    lower = posixpath.basename(name.lower())  # paths are costly where there are many names
    if has_record_name(lower):
        return _BY_SUFFIX[".tfrecord"]
    return _BY_SUFFIX.get(posixpath.splitext(without_compression(lower))[1])


def kind_of_bytes(head: bytes) -> FileKind | None:
    """The kind of a file by its first bytes, 512 of them or more."""
    return next((kind for magic, kind in _MAGIC if magic.match(head)), None)


def suffixes_of(*sources: str) -> tuple[str, ...]:
    """The suffixes of the files that sources read."""
    return tuple(_suffixes(sources))


def _suffixes(sources: tuple[str, ...]) -> Iterator[str]:
    for kind in KINDS:
        if kind.source in sources:
            yield from kind.suffixes


def what_is(head: bytes) -> str | None:
    """Name a file by its first bytes, if they are known."""
    if (kind := kind_of_bytes(head)) is not None:
        return kind.what
    if len(head) >= 4 and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head):
        return "JSON text" if head.lstrip()[:1] in b"{[" else "plain text"
    return None
