import glob
import struct

import torch
import torch.nn as nn

MAX_LEN = 40


def varint(buf, pos):
    val, shift = 0, 0
    while True:
        b = buf[pos]
        pos += 1
        val |= (b & 127) << shift
        shift += 7
        if b < 128:
            return val, pos


def parse(buf):
    res = []
    pos = 0
    while pos < len(buf):
        tag, pos = varint(buf, pos)
        n, pos = varint(buf, pos)
        if tag & 7 == 2:
            res.append(buf[pos:pos + n])
            pos += n
        else:
            res.append(n)
    return res


def int_list(feature):
    inner = parse(parse(feature)[0])
    out = []
    for item in inner:
        if isinstance(item, int):
            out.append(item)
            continue
        pos = 0
        while pos < len(item):
            v, pos = varint(item, pos)
            out.append(v)
    return out


def load(pattern):
    xs, ys = [], []
    for name in sorted(glob.glob(pattern)):
        raw = open(name, "rb").read()
        pos = 0
        while pos < len(raw):
            n = struct.unpack("<Q", raw[pos:pos + 8])[0]
            rec = raw[pos + 12:pos + 12 + n]
            pos += n + 16
            feats = {parse(e)[0].decode(): int_list(parse(e)[1]) for e in parse(parse(rec)[0])}
            tok = feats["tokens"][:MAX_LEN]
            # pad in front so that the last step is a real token
            xs.append([0] * (MAX_LEN - len(tok)) + tok)
            ys.append(feats["label"][0])
    return torch.tensor(xs), torch.tensor(ys)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(2000, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 32)
        self.fc = nn.Linear(32, 4)

    def forward(self, x):
        out, _ = self.lstm(self.emb(x))
        return self.fc(out[:, -1])


torch.manual_seed(0)
X, Y = load("data/tokens/train-*")
XV, YV = load("data/tokens/val-*")
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.005)
for epoch in range(8):
    perm = torch.randperm(len(X))
    for i in range(0, len(X), 20):
        idx = perm[i:i + 20]
        loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        acc = (net(XV).argmax(1) == YV).float().mean()
    print("epoch %d loss %.3f val acc %.3f" % (epoch, loss, acc))
