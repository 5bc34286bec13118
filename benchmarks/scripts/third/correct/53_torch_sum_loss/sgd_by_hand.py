"""Linear regression with autograd, no optimiser object. Loss is a sum over the batch, divided where the step is made."""
import struct

import torch

torch.manual_seed(0)


def load(path):
    xs, ys = [], []
    with open(path, 'rb') as f:
        while head := f.read(12):
            rec = f.read(struct.unpack('<Q', head[:8])[0])
            f.read(4)
            a = rec.index(b'\x0a\x01x') + 3
            a = rec.index(b'\x0a\x20', a) + 2                  # 8 packed floats
            p = rec.index(b'\x0a\x05price') + 7
            p = rec.index(b'\x0a\x04', p) + 2
            xs.append(struct.unpack_from('<8f', rec, a))
            ys.append(struct.unpack_from('<f', rec, p)[0])
    return torch.tensor(xs), torch.tensor(ys)


x, price = load('data/houses/train.tfrecord')
xv, pv = load('data/houses/val.tfrecord')
mean, std = price.mean(), price.std()
y = (price - mean) / std

w = torch.zeros(8, requires_grad=True)
b = torch.zeros((), requires_grad=True)
for epoch in range(30):
    for idx in torch.randperm(len(x)).split(50):
        loss = ((x[idx] @ w + b - y[idx]) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            for p in (w, b):
                p -= 0.1 / len(idx) * p.grad
                p.grad = None
with torch.no_grad():
    pred = (xv @ w + b) * std + mean
    print('MAE', (pred - pv).abs().mean().item(), 'of', (pv - mean).abs().mean().item())
