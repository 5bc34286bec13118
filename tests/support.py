"""What tests build files from: bytes, without the package under test."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "golden"
HEADER, FOOTER = 12, 4


@cache
def golden() -> dict[str, Any]:
    return json.loads((DATA / "golden.json").read_text())["files"]


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _crc_table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


def frame(data: bytes) -> bytes:
    return header(len(data)) + data + struct.pack("<I", masked_crc(data))


def write_records(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(frame(record) for record in records))
    return path


def flip(path: Path, at: int, bits: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values: list[Any]) -> bytes:
    """A Feature of ints, floats or bytes, by its first value; of no values: an empty Int64List."""
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if values and isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(value) for value in values)) if values else b"")


def entries(features: Mapping[str, bytes]) -> bytes:
    return b"".join(
        field(1, field(1, name.encode("utf-8", "surrogateescape")) + field(2, value))
        for name, value in features.items()
    )


def example(features: Mapping[str, list[Any]]) -> bytes:
    return field(1, entries({name: feature(values) for name, values in features.items()}))


def sequence_example(context: Mapping[str, list[Any]], lists: Mapping[str, list[list[Any]]]) -> bytes:
    steps = {name: b"".join(field(1, feature(step)) for step in value) for name, value in lists.items()}
    return (example(context) if context else b"") + (field(2, entries(steps)) if steps else b"")


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bushel", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )
