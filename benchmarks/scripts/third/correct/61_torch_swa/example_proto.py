import glob
import struct


def _varint(buf, i):
    out = shift = 0
    while True:
        b = buf[i]
        i += 1
        out |= (b & 0x7F) << shift
        if b < 0x80:
            return out, i
        shift += 7


def _walk(buf):
    i = 0
    while i < len(buf):
        key, i = _varint(buf, i)
        n, i = _varint(buf, i)
        if key & 7 == 2:
            yield key >> 3, buf[i : i + n]
            i += n
        else:
            yield key >> 3, n


def scalar(feature):
    ((kind, body),) = _walk(feature)
    ((_, v),) = _walk(body)
    if kind == 1:
        return v.decode()
    if kind == 2:
        return struct.unpack("<f", v)[0]
    return v if isinstance(v, int) else _varint(v, 0)[0]


def read(pattern):
    for path in sorted(glob.glob(pattern)):
        with open(path, "rb") as f:
            while head := f.read(12):
                record = f.read(struct.unpack("<Q", head[:8])[0])
                f.read(4)
                ((_, features),) = _walk(record)
                entries = [dict(_walk(e)) for _, e in _walk(features)]
                yield {e[1].decode(): scalar(e[2]) for e in entries}
