import torch
from torch import nn
from torch.utils.data import DataLoader

from fraud.dataset import FraudDataset


def main(epochs: int = 6) -> None:
    torch.manual_seed(1)
    train_set, val_set = FraudDataset("data/fraud/train.tfrecord"), FraudDataset("data/fraud/val.tfrecord")
    train_loader = DataLoader(train_set, batch_size=30, num_workers=0)
    val_loader = DataLoader(val_set, batch_size=100)
    model = nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 1))
    pos_weight = (train_set.y == 0).sum() / (train_set.y == 1).sum()
    criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = torch.cat([model(x).squeeze(1) for x, _ in val_loader])
        labels = val_set.y
        recall = (scores[labels == 1] > 0).float().mean()
        false = (scores[labels == 0] > 0).float().mean()
        print(f"epoch {epoch} recall {recall:.2f} false alarms {false:.2f}")


if __name__ == "__main__":
    main()
