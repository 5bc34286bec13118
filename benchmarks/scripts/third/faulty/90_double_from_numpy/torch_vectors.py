import struct

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_tfrecord(path):
    features, labels = [], []
    with open(path, "rb") as f:
        while True:
            header = f.read(12)
            if len(header) == 0:
                break
            length = struct.unpack("<Q", header[:8])[0]
            record = f.read(length)
            f.read(4)
            start = record.index(b"\x0a\x40", record.index(b"features")) + 2
            features.append(np.frombuffer(record[start:start + 64], dtype="<f4"))
            k = record.index(b"\x1a", record.index(b"label"))
            labels.append(record[k + 1 + record[k + 1]])
    return np.stack(features).astype("float64"), np.array(labels)


x_train, y_train = read_tfrecord("data/vectors/train.tfrecord")
x_val, y_val = read_tfrecord("data/vectors/val.tfrecord")
mean, std = x_train.mean(0), x_train.std(0)
x_train = torch.from_numpy((x_train - mean) / std)
x_val = torch.from_numpy((x_val - mean) / std)
y_train, y_val = torch.from_numpy(y_train), torch.from_numpy(y_val)

loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()

for epoch in range(5):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        acc = (model(x_val).argmax(1) == y_val).float().mean()
    print("epoch", epoch, "loss", loss.item(), "val acc", acc.item())
