"""Matrix factorisation; sparse embeddings with SparseAdam, biases with SGD: two optimisers, one backward."""
import struct

import torch
from torch import nn


def load(path):
    u, m, r = [], [], []
    buf = open(path, 'rb').read()
    i = 0
    while i < len(buf):
        n, = struct.unpack_from('<Q', buf, i)
        rec = buf[i + 12:i + 12 + n]
        i += n + 16

        def after(name, mark):
            k = rec.index(b'\x0a' + bytes([len(name)]) + name) + 2 + len(name)
            return rec.index(mark, k)
        for out, name in ((u, b'user_id'), (m, b'movie_id')):
            k = after(name, b'\x1a')
            out.append(rec[k + 1 + rec[k + 1]])
        k = after(b'rating', b'\x0a\x04') + 2
        r.append(struct.unpack_from('<f', rec, k)[0])
    return torch.tensor(u), torch.tensor(m), torch.tensor(r)


class MF(nn.Module):
    def __init__(self, users, movies, dim):
        super().__init__()
        self.users = nn.Embedding(users, dim, sparse=True)
        self.movies = nn.Embedding(movies, dim, sparse=True)
        self.user_bias = nn.Parameter(torch.zeros(users))
        self.movie_bias = nn.Parameter(torch.zeros(movies))
        self.mean = nn.Parameter(torch.tensor(0.0), requires_grad=False)
        for e in (self.users, self.movies):
            nn.init.normal_(e.weight, std=0.1)

    def forward(self, u, m):
        return self.mean + (self.users(u) * self.movies(m)).sum(1) + self.user_bias[u] + self.movie_bias[m]


torch.manual_seed(2)
u, m, r = load('data/ratings/train.tfrecord')
vu, vm, vr = load('data/ratings/val.tfrecord')
net = MF(100, 50, 3)
net.mean.data.fill_(r.mean())
a = torch.optim.SparseAdam([*net.users.parameters(), *net.movies.parameters()], lr=0.02)
b = torch.optim.SGD([net.user_bias, net.movie_bias], lr=0.2, weight_decay=1e-2)
for epoch in range(12):
    for k in torch.randperm(len(r)).split(50):
        loss = nn.functional.mse_loss(net(u[k], m[k]), r[k])
        net.zero_grad()
        loss.backward()
        a.step()
        b.step()
with torch.no_grad():
    rmse = nn.functional.mse_loss(net(vu, vm).clamp(1, 5), vr).sqrt()
print('val rmse', rmse.item(), 'constant', (vr - r.mean()).pow(2).mean().sqrt().item())
