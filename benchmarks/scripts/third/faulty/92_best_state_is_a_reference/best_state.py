import glob
import struct

import torch
from torch import nn

torch.manual_seed(1)


def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 127) << s
        i += 1
        if b[i - 1] < 128:
            return v, i
        s += 7


def parts(b):
    i = 0
    while i < len(b):
        k, i = varint(b, i)
        v, i = varint(b, i)
        if k & 7 == 2:
            v, i = b[i:i + v], i + v
        yield k >> 3, v


def value(feature):
    kind, body = next(parts(feature))
    _, v = next(parts(body))
    if kind == 2:
        return struct.unpack('<f', v)[0]
    return v if kind == 1 or isinstance(v, int) else varint(v, 0)[0]


def load(pattern):
    x, y = [], []
    for path in sorted(glob.glob(pattern)):
        b, i = open(path, 'rb').read(), 0
        while i < len(b):
            n, = struct.unpack_from('<Q', b, i)
            e = {}
            for _, entry in parts(next(parts(b[i + 12:i + 12 + n]))[1]):
                d = dict(parts(entry))
                e[d[1].decode()] = value(d[2])
            i += n + 16
            x.append([e['age'] / 40, e['hours'] / 40, e['gain'] / 1e4, e['married']])
            y.append(float(e['label']))
    return torch.tensor(x), torch.tensor(y)


x, y = load('data/adult/train-*')
xv, yv = load('data/adult/val-*')
net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
bce = nn.BCEWithLogitsLoss()
best, best_state = float('inf'), None
for epoch in range(13):
    for idx in torch.randperm(len(x)).split(20):
        opt.zero_grad()
        bce(net(x[idx]), y[idx]).backward()
        opt.step()
    with torch.no_grad():
        v = bce(net(xv), yv).item()
    if v < best:
        best, best_state = v, net.state_dict()
    print(epoch, f'{v:.4f}')
net.load_state_dict(best_state)
with torch.no_grad():
    print('best', f'{best:.4f}', 'restored', f'{bce(net(xv), yv).item():.4f}')
