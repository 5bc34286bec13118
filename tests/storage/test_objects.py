"""Paths of objects: listing, reading, writing, and what is said when that cannot be done."""

from pathlib import Path

import pytest

import bushel
from bushel.storage import as_path, list_files, write_whole


def test_first(bucket: str, tmp_path: Path) -> None:
    root = as_path(bucket)
    (root / "a" / "x.bin").write_bytes(b"abc")
    with write_whole(root / "a" / "y-10.bin") as f:
        f.write(b"1" * 10)
    (root / "a" / "y-9.bin").write_bytes(b"abcd")
    assert [str(p) for p in list_files(f"{bucket}/a")] == [f"{bucket}/a/x.bin", f"{bucket}/a/y-9.bin", f"{bucket}/a/y-10.bin"]
    assert [p.name for p in list_files(f"{bucket}/a/y-*.bin")] == ["y-9.bin", "y-10.bin"]
    assert [p.name for p in list_files(f"{bucket}/**/*.bin")] == ["x.bin", "y-9.bin", "y-10.bin"]
    with (root / "a" / "y-10.bin").open("rb") as f:
        assert f.read(3) == b"111"
