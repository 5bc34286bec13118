"""Train the income classifier on the TFRecord export."""
from __future__ import annotations

import argparse
import glob
import math
import struct

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

JOBS = [b"clerk", b"farmer", b"sales", b"tech"]


def _varint(buf: bytes, i: int) -> tuple[int, int]:
    out = shift = 0
    while True:
        byte = buf[i]
        i += 1
        out |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return out, i


def _fields(buf: bytes):
    i = 0
    while i < len(buf):
        key, i = _varint(buf, i)
        val, i = _varint(buf, i)
        if key & 7 == 2:
            val, i = buf[i : i + val], i + val
        yield key >> 3, val


def _first(feature: bytes):
    kind, body = next(_fields(feature))
    _, val = next(_fields(body))
    if kind == 1:
        return val
    if kind == 2:
        return struct.unpack("<f", val)[0]
    return val if isinstance(val, int) else _varint(val, 0)[0]


def load(pattern: str) -> TensorDataset:
    rows, labels = [], []
    for path in sorted(glob.glob(pattern)):
        buf, i = open(path, "rb").read(), 0
        while i < len(buf):
            (n,) = struct.unpack_from("<Q", buf, i)
            (_, features), = _fields(buf[i + 12 : i + 12 + n])
            i += n + 16
            ex = {dict(_fields(e))[1]: _first(dict(_fields(e))[2]) for _, e in _fields(features)}
            job = [float(ex[b"job"] == j) for j in JOBS]
            rows.append([(ex[b"age"] - 38) / 11, (ex[b"hours"] - 40) / 8, math.log1p(ex[b"gain"]) / 10, ex[b"married"], *job])
            labels.append(float(ex[b"label"]))
    return TensorDataset(torch.tensor(rows), torch.tensor(labels)[:, None])


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(0)
    train, val = load("data/adult/train-*"), load("data/adult/val-*")
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        for x, y in DataLoader(train, batch_size=args.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
        with torch.no_grad():
            x, y = val.tensors
            accuracy = ((model(x) > 0).float() == y).float().mean()
        print(f"epoch {epoch} lr {scheduler.get_last_lr()[0]:.4f} val accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
