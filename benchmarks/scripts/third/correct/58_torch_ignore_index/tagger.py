import struct

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

IGNORE = -100


def vint(b, i):
    v = s = 0
    while b[i] > 127:
        v |= (b[i] & 127) << s
        s += 7
        i += 1
    return v | b[i] << s, i + 1


def sub(b):
    i, out = 0, []
    while i < len(b):
        k, i = vint(b, i)
        n, i = vint(b, i)
        if k & 7 == 2:
            out.append(b[i:i + n])
            i += n
        else:
            out.append(n)
    return out


def ints(feature):
    out = []
    for piece in sub(sub(feature)[0]):
        if isinstance(piece, int):
            out.append(piece)
        else:
            i = 0
            while i < len(piece):
                v, i = vint(piece, i)
                out.append(v)
    return out


def load(path):
    buf, at, rows = open(path, 'rb').read(), 0, []
    while at < len(buf):
        n, = struct.unpack_from('<Q', buf, at)
        ex = {sub(e)[0]: ints(sub(e)[1]) for e in sub(sub(buf[at + 12:at + 12 + n])[0])}
        rows.append((torch.tensor(ex[b'tokens']), torch.tensor(ex[b'tags'])))
        at += n + 16
    return rows


def batches(rows, size, order):
    for idx in order.split(size):
        tok, tag = zip(*(rows[i] for i in idx))
        yield pad_sequence(tok, True), pad_sequence(tag, True, padding_value=IGNORE)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(500, 24, padding_idx=0)
        self.conv = nn.Conv1d(24, 32, 3, padding=1)
        self.out = nn.Conv1d(32, 5, 1)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        return self.out(torch.relu(self.conv(x)))  # (batch, tags, time), as cross_entropy wants it


torch.manual_seed(0)
train, val = load('data/tags/train.tfrecord'), load('data/tags/val.tfrecord')
net = Tagger()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(8):
    for ids, tags in batches(train, 30, torch.randperm(len(train))):
        loss = nn.functional.cross_entropy(net(ids), tags, ignore_index=IGNORE)
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    right = total = 0
    for ids, tags in batches(val, 40, torch.arange(len(val))):
        keep = tags != IGNORE
        right += (net(ids).argmax(1)[keep] == tags[keep]).sum().item()
        total += keep.sum().item()
print('token accuracy', right / total, 'of', total)
