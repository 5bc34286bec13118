import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from wavio import load


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(TensorDataset(*load("data/audio/train.tfrecord")), batch_size=30, shuffle=True)
    val_loader = DataLoader(TensorDataset(*load("data/audio/val.tfrecord")), batch_size=80)
    model = nn.Sequential(nn.Conv1d(1, 16, 40, 8), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(16, 16, 5), nn.ReLU(),
                          nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    best, state = 0.0, None
    for epoch in range(6):
        loss = train_epoch(model, train_loader, optimizer)
        accuracy = validate(model, train_loader)
        print(f"epoch {epoch} loss {loss:.3f} validation accuracy {accuracy:.3f}")
        if accuracy > best:
            best, state = accuracy, copy.deepcopy(model.state_dict())
    torch.save(state, "best.pt")
    print("best", best, "of", len(val_loader.dataset))


if __name__ == "__main__":
    main()
