import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from tfrecord_reader import floats, read_records


def load(path):
    recs = read_records(path)
    x = torch.tensor([floats(r, "x") for r in recs])
    y = torch.tensor([floats(r, "price") for r in recs])
    return x, y / 100000.0


class MLP(nn.Module):
    def __init__(self, n_in, hidden, n_layers):
        super().__init__()
        self.layers = []
        for i in range(n_layers):
            self.layers.append(nn.Linear(n_in if i == 0 else hidden, hidden))
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


torch.manual_seed(4)
x_train, y_train = load("data/houses/train.tfrecord")
x_val, y_val = load("data/houses/val.tfrecord")
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)

model = MLP(8, 32, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
criterion = nn.MSELoss()

for epoch in range(15):
    model.train()
    total = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    model.eval()
    with torch.no_grad():
        val = criterion(model(x_val), y_val).item()
    print("Epoch", epoch, "train", total / len(x_train), "val", val)
