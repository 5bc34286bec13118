"""The core compiles on a machine that has a compiler and no library for images."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "src" / "native"
HEADERS = ("jpeglib.h", "jpegint.h", "jerror.h", "libdeflate.h", "zlib.h")
ABOUT_IMAGES = sorted(
    path for name in ("decode_*", "encode_*", "huffman", "jpeg*") for path in NATIVE.glob(f"{name}.cpp")
)


@pytest.mark.parametrize("source", ABOUT_IMAGES, ids=lambda path: path.stem)
def test_a_source_needs_no_header_of_a_decoder(source: Path, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    assert compiler is not None
    for header in HEADERS:
        (tmp_path / header).write_text("#error this library is not installed\n")
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{tmp_path}", f"-I{NATIVE}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
