"""Direct 6-hour forecast. Windows are shuffled in training only; statistics come from the training hours only."""
import struct

import torch
from torch import nn

PAST, AHEAD = 48, 6
KEYS = (b"load", b"temperature", b"wind")


def series(path):
    rows = []
    with open(path, "rb") as f:
        while size := f.read(8):
            f.seek(4, 1)
            rec = f.read(struct.unpack("<Q", size)[0])
            f.seek(4, 1)
            row = []
            for key in KEYS:
                at = rec.index(b"\x0a" + bytes([len(key)]) + key) + 2 + len(key)
                row.append(struct.unpack_from("<f", rec, rec.index(b"\x0a\x04", at) + 2)[0])
            rows.append(row)
    return torch.tensor(rows)


train, val = series("data/power/train.tfrecord"), series("data/power/val.tfrecord")
mean, std = train.mean(0), train.std(0)


def windows(s):
    z = ((s - mean) / std).unfold(0, PAST + AHEAD, 1)      # (n, feature, time)
    return z[:, :, :PAST], z[:, 0, PAST:]


class Causal(nn.Conv1d):
    def forward(self, x):
        return super().forward(nn.functional.pad(x, (self.dilation[0] * (self.kernel_size[0] - 1), 0)))


torch.manual_seed(0)
net = nn.Sequential(Causal(3, 16, 3), nn.ReLU(), Causal(16, 16, 3, dilation=4), nn.ReLU(),
                    Causal(16, 16, 3, dilation=12), nn.ReLU(), nn.Flatten(), nn.Linear(16 * PAST, AHEAD))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
x, y = windows(train)
xv, yv = windows(val)
for epoch in range(8):
    net.train()
    for idx in torch.randperm(len(x)).split(64):
        opt.zero_grad()
        nn.functional.l1_loss(net(x[idx]), y[idx]).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        err = (net(xv) - yv).abs().mean(0) * std[0]
    print(epoch, " ".join(f"{e:.1f}" for e in err))
