"""Variable length sequences through a packed LSTM; lengths need not be sorted."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

from sequence_example import read


def collate(items):
    return pack_sequence([torch.tensor(f) for f, _ in items], enforce_sorted=False), torch.tensor([y for _, y in items])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 32)  # a packed sequence carries its own layout
        self.fc = nn.Linear(32, 5)

    def forward(self, packed):
        _, (h, _) = self.lstm(packed)
        return self.fc(h[-1])


torch.manual_seed(3)
train = DataLoader(list(read("data/gestures/train.tfrecord")), batch_size=30, shuffle=True, collate_fn=collate)
val = DataLoader(list(read("data/gestures/val.tfrecord")), batch_size=80, collate_fn=collate)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(10):
    for x, y in train:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    with torch.no_grad():
        print(epoch, [((net(x).argmax(1) == y).float().mean()).item() for x, y in val])
