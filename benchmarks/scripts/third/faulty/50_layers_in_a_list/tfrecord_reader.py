"""Minimal TFRecord reader, no tensorflow needed."""
import struct


def read_records(path):
    out = []
    with open(path, "rb") as f:
        data = f.read()
    pos = 0
    while pos < len(data):
        length = struct.unpack("<Q", data[pos:pos + 8])[0]
        out.append(data[pos + 12:pos + 12 + length])
        pos += 12 + length + 4
    return out


def _varint(buf, pos):
    result, shift = 0, 0
    while True:
        byte = buf[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, pos
        shift += 7


def _message(buf):
    pos, items = 0, []
    while pos < len(buf):
        key, pos = _varint(buf, pos)
        wire = key & 7
        if wire == 2:
            size, pos = _varint(buf, pos)
            items.append((key >> 3, buf[pos:pos + size]))
            pos += size
        elif wire == 0:
            value, pos = _varint(buf, pos)
            items.append((key >> 3, value))
        elif wire == 5:
            items.append((key >> 3, buf[pos:pos + 4]))
            pos += 4
    return items


def floats(record, name):
    for _, entry in _message(_message(record)[0][1]):
        parts = dict(_message(entry))
        if parts[1].decode() == name:
            kind, payload = _message(parts[2])[0]
            raw = b"".join(v for _, v in _message(payload))
            return struct.unpack("<%df" % (len(raw) // 4), raw)
    raise KeyError(name)
