"""TCN-like classifier for the gesture recordings (SequenceExample)."""
import struct

import torch
from torch import nn

STEPS, FEATS = 30, 6


def varint(b, i):
    out = shift = 0
    while True:
        c = b[i]
        i += 1
        out |= (c & 0x7F) << shift
        if c < 0x80:
            return out, i
        shift += 7


def message(b):
    i, out = 0, []
    while i < len(b):
        key, i = varint(b, i)
        if key & 7 == 2:
            n, i = varint(b, i)
            out.append((key >> 3, b[i:i + n]))
            i += n
        else:
            v, i = varint(b, i)
            out.append((key >> 3, v))
    return out


def int_value(feature):
    (_, lst), = message(feature)
    (_, v), = message(lst)
    return v if isinstance(v, int) else varint(v, 0)[0]


def float_values(feature):
    (_, lst), = message(feature)
    raw = b"".join(v for _, v in message(lst))
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def load(path):
    data = open(path, "rb").read()
    at, frames, labels = 0, [], []
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        parts = dict(message(data[at + 12:at + 12 + n]))
        at += n + 16
        context = {dict(message(e))[1]: dict(message(e))[2] for _, e in message(parts[1])}
        (_, entry), = message(parts[2])
        steps = [float_values(f) for _, f in message(dict(message(entry))[2])]
        x = torch.zeros(STEPS, FEATS)
        x[:len(steps)] = torch.tensor(steps)
        frames.append(x)
        labels.append(int_value(context[b"label"]))
    return torch.stack(frames), torch.tensor(labels)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(FEATS, 32, 5, padding=2)
        self.conv2 = nn.Conv1d(32, 32, 5, padding=2)
        self.fc = nn.Linear(32, 5)

    def forward(self, x):
        x = x.view(-1, FEATS, STEPS)
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.fc(x.mean(dim=2))


torch.manual_seed(0)
x_train, y_train = load("data/gestures/train.tfrecord")
x_val, y_val = load("data/gestures/val.tfrecord")
net = ConvNet()
optim = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(12):
    for batch in torch.randperm(len(x_train)).split(30):
        optim.zero_grad()
        loss = nn.functional.cross_entropy(net(x_train[batch]), y_train[batch])
        loss.backward()
        optim.step()
with torch.no_grad():
    print("val accuracy", (net(x_val).argmax(1) == y_val).float().mean().item())
