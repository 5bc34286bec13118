import struct


def _uvarint(b, i):
    x = s = 0
    while True:
        x |= (b[i] & 0x7f) << s
        i += 1
        if not b[i - 1] & 0x80:
            return x, i
        s += 7


def _fields(b):
    i = 0
    while i < len(b):
        k, i = _uvarint(b, i)
        v, i = _uvarint(b, i)
        if k & 7 == 2:
            v, i = b[i:i + v], i + v
        yield k >> 3, v


def _ints(feature):
    _, lst = next(_fields(feature))
    vals = []
    for _, v in _fields(lst):
        if isinstance(v, int):
            vals.append(v)
        else:
            i = 0
            while i < len(v):
                x, i = _uvarint(v, i)
                vals.append(x)
    return vals


def _floats(feature):
    _, lst = next(_fields(feature))
    i, (_, raw) = 0, next(_fields(lst))
    return struct.unpack(f'<{len(raw) // 4}f', raw)


def read(path):
    """Yields (frames, label) of each SequenceExample."""
    buf, i = open(path, 'rb').read(), 0
    while i < len(buf):
        n, = struct.unpack_from('<Q', buf, i)
        msg = dict(_fields(buf[i + 12:i + 12 + n]))
        i += 16 + n
        ctx = {}
        for _, e in _fields(msg[1]):
            e = dict(_fields(e))
            ctx[e[1]] = _ints(e[2])
        lists = dict(_fields(next(_fields(msg[2]))[1]))
        yield [_floats(f) for _, f in _fields(lists[2])], ctx[b'label'][0]
