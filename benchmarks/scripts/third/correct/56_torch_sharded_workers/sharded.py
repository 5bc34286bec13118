"""IterableDataset over shards: worker w reads every n-th record, counted over all files."""
import glob
import itertools
import struct

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def raw(paths):
    for path in paths:
        with open(path, 'rb') as f:
            while head := f.read(12):
                yield f.read(struct.unpack('<Q', head[:8])[0])
                f.read(4)


def decode(rec):
    at = rec.index(b'image_raw') + 9
    at = rec.index(b'\x0a\x90\x06', at) + 3                # 784 bytes
    pixels = np.frombuffer(rec, np.uint8, 784, at).reshape(1, 28, 28)
    at = rec.index(b'\x0a\x05label') + 7
    at = rec.index(b'\x1a', at)
    return torch.from_numpy(pixels.astype(np.float32) / 255), rec[at + 1 + rec[at + 1]]


class Shards(IterableDataset):
    def __init__(self, pattern, shuffle):
        self.paths, self.shuffle, self.epoch = sorted(glob.glob(pattern)), shuffle, 0

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        mine = list(itertools.islice(raw(self.paths), first, None, step))
        if self.shuffle:
            np.random.default_rng([self.epoch, first]).shuffle(mine)
        return map(decode, mine)


def main():
    torch.manual_seed(0)
    train, test = Shards('data/digits/train-*', True), Shards('data/digits/test-*', False)
    net = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    net(torch.zeros(1, 1, 28, 28))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for epoch in range(5):
        train.epoch = epoch
        n = 0
        for x, y in DataLoader(train, batch_size=25, num_workers=2):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            n += len(y)
        with torch.no_grad():
            hits = torch.cat([net(x).argmax(1) == y for x, y in DataLoader(test, batch_size=50, num_workers=2)])
        print(epoch, n, hits.float().mean().item(), len(hits))


if __name__ == '__main__':
    main()
