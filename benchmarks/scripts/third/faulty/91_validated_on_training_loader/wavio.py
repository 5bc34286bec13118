import struct

import torch


def _varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 0x7F) << s
        i += 1
        if b[i - 1] < 0x80:
            return v, i
        s += 7


def _fields(b):
    i = 0
    while i < len(b):
        key, i = _varint(b, i)
        v, i = _varint(b, i)
        if key & 7 == 2:
            v, i = b[i : i + v], i + v
        yield key >> 3, v


def load(path):
    waves, labels = [], []
    with open(path, "rb") as f:
        while head := f.read(12):
            record = f.read(struct.unpack("<Q", head[:8])[0])
            f.read(4)
            for _, entry in _fields(next(_fields(record))[1]):
                (_, name), (_, feature) = _fields(entry)
                _, body = next(_fields(feature))
                _, value = next(_fields(body))
                if name == b"audio":
                    waves.append(torch.frombuffer(bytearray(value), dtype=torch.float32))
                elif name == b"label":
                    labels.append(value if isinstance(value, int) else value[0])
    return torch.stack(waves)[:, None], torch.tensor(labels)
