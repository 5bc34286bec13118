import struct
from collections.abc import Iterator


def iter_records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as handle:
        while header := handle.read(12):
            (size,) = struct.unpack_from("<Q", header)
            yield handle.read(size)
            handle.read(4)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def _split(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 2:
            size, at = _varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            value, at = _varint(data, at)
            yield key >> 3, value


def parse_example(record: bytes) -> dict[str, list]:
    result = {}
    for _, features in _split(record):
        for _, entry in _split(features):
            name, feature = (value for _, value in _split(entry))
            ((kind, body),) = _split(feature)
            values = [v for _, v in _split(body)]
            if kind == 2:
                blob = b"".join(values)
                values = list(struct.unpack(f"<{len(blob) // 4}f", blob))
            elif kind == 3 and values and isinstance(values[0], bytes):
                blob, values, at = values[0], [], 0
                while at < len(blob):
                    v, at = _varint(blob, at)
                    values.append(v)
            result[name.decode()] = values
    return result
