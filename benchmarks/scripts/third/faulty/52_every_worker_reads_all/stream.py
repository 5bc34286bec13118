import random
import struct

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def tfrecords(path):
    with open(path, "rb") as fh:
        while (h := fh.read(8)):
            fh.seek(4, 1)
            yield fh.read(struct.unpack("<Q", h)[0])
            fh.seek(4, 1)


def vint(b, p):
    r = s = 0
    while b[p] & 0x80:
        r |= (b[p] & 0x7F) << s
        s += 7
        p += 1
    return r | b[p] << s, p + 1


def walk(b):
    p = 0
    while p < len(b):
        k, p = vint(b, p)
        if k & 7 == 2:
            n, p = vint(b, p)
            yield k >> 3, b[p:p + n]
            p += n
        else:
            v, p = vint(b, p)
            yield k >> 3, v


def decode(b):
    res = {}
    for _, e in walk(next(walk(b))[1]):
        name, feat = [v for _, v in walk(e)]
        kind, lst = next(walk(feat))
        body = [v for _, v in walk(lst)]
        if kind == 2:
            raw = b"".join(body)
            res[name] = torch.frombuffer(bytearray(raw), dtype=torch.float32)
        elif kind == 3:
            res[name] = body[0] if isinstance(body[0], int) else vint(body[0], 0)[0]
    return res[b"audio"], res[b"label"]


class Audio(IterableDataset):
    def __init__(self, path, shuffle_buffer=0):
        self.path, self.size = path, shuffle_buffer

    def __iter__(self):
        info = get_worker_info()
        rng = random.Random(info.seed if info else None)
        buf = []
        for rec in tfrecords(self.path):
            if not self.size:
                yield decode(rec)
                continue
            buf.append(rec)
            if len(buf) > self.size:
                yield decode(buf.pop(rng.randrange(len(buf))))
        rng.shuffle(buf)
        yield from map(decode, buf)


def main():
    torch.manual_seed(0)
    train = DataLoader(Audio("data/audio/train.tfrecord", 100), batch_size=30, num_workers=2)
    val = DataLoader(Audio("data/audio/val.tfrecord"), batch_size=40, num_workers=2)
    net = nn.Sequential(nn.Unflatten(1, (1, 400)), nn.Conv1d(1, 16, 32, 4), nn.ReLU(), nn.MaxPool1d(4),
                        nn.Conv1d(16, 32, 8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for epoch in range(4):
        seen = 0
        for x, y in train:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            seen += len(y)
        with torch.no_grad():
            hits = torch.cat([net(x).argmax(1) == y for x, y in val]).float()
        print(f"epoch {epoch}: {seen} samples, val acc {hits.mean():.3f} on {len(hits)}")


if __name__ == "__main__":
    main()
