import struct

import numpy as np
import torch
from torch import nn


def records(path):
    with open(path, 'rb') as f:
        while True:
            head = f.read(12)
            if len(head) < 12:
                return
            n, = struct.unpack('<Q', head[:8])
            yield f.read(n)
            f.read(4)


def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 127) << s
        i += 1
        if b[i - 1] < 128:
            return v, i
        s += 7


def fields(b):
    i = 0
    while i < len(b):
        tag, i = varint(b, i)
        if tag & 7 == 0:
            v, i = varint(b, i)
        else:
            n, i = varint(b, i)
            v, i = b[i:i + n], i + n
        yield tag >> 3, v


def example(b):
    out = {}
    feats = next(v for k, v in fields(b) if k == 1)
    for _, entry in fields(feats):
        d = dict(fields(entry))
        (kind, lst), = fields(d[2])
        vals = [v for _, v in fields(lst)]
        if kind == 3:
            raw, i, vals = vals[0], 0, []
            if isinstance(raw, int):
                vals = [raw]
            else:
                while i < len(raw):
                    v, i = varint(raw, i)
                    vals.append(v)
        out[d[1].decode()] = vals
    return out


def load(split):
    rows = [example(r) for r in records(f'data/vectors/{split}.tfrecord')]
    x = np.stack([np.frombuffer(r['features'][0], '<f4') for r in rows])
    y = np.array([r['label'][0] for r in rows])
    return torch.tensor(x), torch.tensor(y)


torch.manual_seed(0)
xt, yt = load('train')
xv, yv = load('val')

net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
net[2] = nn.Linear(32, 3)
for p in net[0].parameters():
    p.requires_grad_(False)

for epoch in range(20):
    perm = torch.randperm(len(xt))
    for idx in perm.split(32):
        loss = nn.functional.cross_entropy(net(xt[idx]), yt[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 5 == 4:
        print(epoch, round(loss.item(), 4))
with torch.no_grad():
    print('val acc', (net(xv).argmax(1) == yv).float().mean().item())
