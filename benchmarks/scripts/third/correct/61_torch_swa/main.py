"""Stochastic weight averaging; batch norm statistics are computed again for the averaged network."""
import math

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

from example_proto import read

JOBS = ["clerk", "farmer", "sales", "tech"]


def load(pattern):
    rows = list(read(pattern))
    x = [[r["age"] / 50, r["hours"] / 40, math.log1p(r["gain"]) / 10, r["married"], *(r["job"] == j for j in JOBS)] for r in rows]
    return torch.tensor(x, dtype=torch.float32), torch.tensor([[float(r["label"])] for r in rows])


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return ((model(x) > 0) == (y > 0.5)).float().mean().item()


torch.manual_seed(0)
x, y = load("data/adult/train-*.tfrecord")
xv, yv = load("data/adult/val-*.tfrecord")
loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
average, swa_scheduler, START = AveragedModel(model), SWALR(optimizer, swa_lr=0.02, anneal_epochs=2), 4
for epoch in range(10):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(xb), yb).backward()
        optimizer.step()
    if epoch >= START:
        average.update_parameters(model)
        swa_scheduler.step()
update_bn(loader, average)
print("last", accuracy(model, xv, yv), "average", accuracy(average, xv, yv))
