import struct

import numpy as np
import torch
import torch.nn as nn


# images are TensorProtos: the pixels are the last 24*24*3 bytes of the feature
def load(path):
    images, labels = [], []
    f = open(path, "rb")
    while True:
        head = f.read(12)
        if not head:
            break
        rec = f.read(struct.unpack("<Q", head[:8])[0])
        f.read(4)
        start = rec.index(b"\x22\xc0\x0d") + 3          # field tensor_content, 1728 bytes
        img = np.frombuffer(rec, np.uint8, 1728, start).reshape(24, 24, 3)
        lab = rec.index(b"\x0a\x05label", 0 if rec.index(b"label") < start else start + 1728) + 7
        lab = rec.index(b"\x1a", lab)
        images.append(img.transpose(2, 0, 1))           # HWC -> CHW
        labels.append(rec[lab + 1 + rec[lab + 1]])
    f.close()
    return torch.tensor(np.array(images)) / 255.0, torch.tensor(labels)


torch.manual_seed(0)
x, y = load("data/tensors/train.tfrecord")
xv, yv = load("data/tensors/val.tfrecord")
print(x.shape, y.bincount())

backbone = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
head = nn.Linear(64, 3)


def run(params, epochs, lr):
    params = list(params)
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        for idx in torch.randperm(len(x)).split(25):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(head(backbone(x[idx])), y[idx])
            loss.backward()
            opt.step()
    with torch.no_grad():
        return (head(backbone(xv)).argmax(1) == yv).float().mean().item()


# stage 1: only the head (random features), stage 2: everything with a new optimizer
for p in backbone.parameters():
    p.requires_grad = False
print("head only:", run(head.parameters(), 5, 1e-2))
for p in backbone.parameters():
    p.requires_grad = True
print("all:", run([*backbone.parameters(), *head.parameters()], 6, 2e-3))
