"""The one table of file kinds agrees with what is made from it."""

import re
from pathlib import Path
from typing import get_args

import pytest

from bushel.data.schema import Encoding
from bushel.pixels.headers import FORMATS
from bushel.storage.file_kinds import (
    CODECS,
    CORE_IMAGES,
    IMAGES,
    KINDS,
    SHARD_CODECS,
    Compression,
    kind_of_bytes,
    kind_of_name,
    what_is,
    without_compression,
)

NATIVE = Path(__file__).parent.parent.parent / "src" / "native" / "survey.h"


def test_image_formats_have_the_numbers_that_the_core_gives_them() -> None:
    listed = re.search(r"enum class Format[^{]*{([^}]*)}", NATIVE.read_text())
    assert listed is not None
    numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", listed[1])}
    assert {"other": 0, **{name: IMAGES[name].number for name in CORE_IMAGES}} == numbers


def test_every_image_format_is_parsed_and_can_be_the_encoding_of_a_feature() -> None:
    assert FORMATS.keys() == IMAGES.keys() <= set(get_args(Encoding))


def test_no_suffix_is_of_two_kinds() -> None:
    suffixes = [suffix for kind in KINDS for suffix in kind.suffixes]
    assert sorted(suffixes) == sorted(set(suffixes))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.JPG", "jpeg"),
        ("rows.csv.gz", "csv"),
        ("x.tfrecord-00000-of-00008", "tfrecord"),
        ("train-00000-of-00001.tfrecord.gz", "tfrecord"),
        ("shard.tar.xz", "tar"),
        ("README", None),
        ("a.heic", "other image"),
    ],
)
def test_a_name_tells_the_kind_of_file(name: str, kind: str | None) -> None:
    found = kind_of_name(name)
    assert (found and found.name) == kind


def test_first_bytes_tell_the_kind_of_file() -> None:
    assert what_is(b"RIFF\x10\0\0\0WEBPVP8 ") == "a WebP image"
    assert what_is(b"BMW,Audi\nyes,no\n") == "plain text"
    assert what_is(b"<HTML><body>") == "an HTML page"
    assert what_is(b"\0" * 257 + b"ustar") == "a tar archive"
    assert kind_of_bytes(b"\0\0\0\0") is None


def test_shards_may_have_the_compressions_that_say_so() -> None:
    assert tuple(SHARD_CODECS) == get_args(Compression)
    assert without_compression("a.csv.ZST") == "a.csv"
    assert all(codec.suffixes for codec in CODECS.values())
