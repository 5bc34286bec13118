import struct


def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 0x7F) << s
        s, i = s + 7, i + 1
        if b[i - 1] < 0x80:
            return v, i


def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        value, i = varint(b, i)
        if key & 7 == 2:
            value, i = b[i : i + value], i + value
        yield key >> 3, value


def last_int(feature):
    (_, body), = fields(feature)
    (_, v), = fields(body)
    return v if isinstance(v, int) else varint(v, 0)[0]


def read(path):
    with open(path, "rb") as f:
        while head := f.read(12):
            record = dict(fields(f.read(struct.unpack("<Q", head[:8])[0])))
            f.read(4)
            context = {}
            for _, entry in fields(record[1]):
                e = dict(fields(entry))
                context[e[1].decode()] = last_int(e[2])
            frames = []
            (_, entry), = fields(record[2])
            for _, step in fields(dict(fields(entry))[2]):
                (_, body), = fields(step)
                (_, raw), = fields(body)
                frames.append(struct.unpack("<6f", raw))
            assert len(frames) == context["length"]
            yield frames, context["label"]
