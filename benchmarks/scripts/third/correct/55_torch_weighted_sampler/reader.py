"""Just enough of the TFRecord and protobuf formats to read flat Examples."""
import struct


def records(path):
    with open(path, "rb") as stream:
        while True:
            header = stream.read(12)
            if not header:
                return
            (length,) = struct.unpack_from("<Q", header)
            yield stream.read(length)
            stream.read(4)


def _number(data, at):
    result = shift = 0
    while True:
        byte = data[at]
        result |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return result, at


def _parts(data):
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        value, at = _number(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value


def example(record):
    values = {}
    for _, features in _parts(record):
        for _, entry in _parts(features):
            pair = dict(_parts(entry))
            ((kind, body),) = _parts(pair[2])
            items = [v for _, v in _parts(body)]
            if kind == 2:
                raw = b"".join(items)
                items = struct.unpack(f"<{len(raw) // 4}f", raw)
            elif kind == 3 and not isinstance(items[0], int):
                raw, items, at = items[0], [], 0
                while at < len(raw):
                    v, at = _number(raw, at)
                    items.append(v)
            values[pair[1].decode()] = items
    return values
