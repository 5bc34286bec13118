import struct
from collections import deque

import torch
from torch import nn

HISTORY = 24
KEYS = (b"load", b"temperature", b"wind")
CENTRE = torch.tensor([680.0, 15.0, 5.0])
SPREAD = torch.tensor([170.0, 7.0, 2.0])


def raw_records(path):
    with open(path, "rb") as f:
        while True:
            size = f.read(8)
            if not size:
                break
            f.read(4)
            yield f.read(struct.unpack("<Q", size)[0])
            f.read(4)


def value(record, key):
    # every value here is one float: key, tag, float_list, packed 4 bytes
    at = record.index(b"\x0a" + bytes([len(key)]) + key) + 2 + len(key)
    at = record.index(b"\x0a\x04", at) + 2
    return struct.unpack_from("<f", record, at)[0]


def windows(path):
    past = deque(maxlen=HISTORY)
    for record in raw_records(path):
        row = (torch.tensor([value(record, k) for k in KEYS]) - CENTRE) / SPREAD
        if len(past) == HISTORY:
            yield torch.stack(list(past)), row[0]
        past.append(row)


def batches(stream, size):
    xs, ys = [], []
    for x, y in stream:
        xs.append(x)
        ys.append(y)
        if len(xs) == size:
            yield torch.stack(xs), torch.stack(ys)
            xs, ys = [], []
    if xs:
        yield torch.stack(xs), torch.stack(ys)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        _, h = self.gru(x)
        return self.out(h[-1]).squeeze(1)


torch.manual_seed(2)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
train = windows("data/power/train.tfrecord")
for epoch in range(6):
    model.train()
    for x, y in batches(train, 32):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        errors = [(model(x) - y).abs() for x, y in batches(windows("data/power/val.tfrecord"), 64)]
    print(f"epoch {epoch}: val MAE {torch.cat(errors).mean() * SPREAD[0]:.2f} MW")
