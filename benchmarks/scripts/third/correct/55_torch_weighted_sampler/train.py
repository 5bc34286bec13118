"""The file is sorted by class; the sampler draws both classes equally often, so no shuffle is needed."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from reader import example, records


def load(path):
    rows = [example(r) for r in records(path)]
    x = torch.tensor([[*r["x"], math.log(r["amount"][0])] for r in rows])
    return x, torch.tensor([r["label"][0] for r in rows])


def main():
    torch.manual_seed(0)
    x, y = load("data/fraud/train.tfrecord")
    xv, yv = load("data/fraud/val.tfrecord")
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std
    weights = 1.0 / torch.bincount(y)[y].double()
    sampler = WeightedRandomSampler(weights, num_samples=len(y), replacement=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, sampler=sampler)
    model = nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 2), nn.LogSoftmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(6):
        for xb, yb in loader:
            optimizer.zero_grad()
            nn.functional.nll_loss(model(xb), yb).backward()
            optimizer.step()
    with torch.no_grad():
        hit = model(xv).argmax(1) == yv
    print("recall", hit[yv == 1].float().mean().item(), "specificity", hit[yv == 0].float().mean().item())


if __name__ == "__main__":
    main()
