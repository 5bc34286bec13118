import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from seqex import read


def collate(items):
    frames = [torch.tensor(f) for f, _ in items]
    lengths = torch.tensor([len(f) for f in frames])
    return pad_sequence(frames, batch_first=True), lengths, torch.tensor([y for _, y in items])


class Classifier(nn.Module):
    def __init__(self, dim=6, hidden=32, classes=5):
        super().__init__()
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x, lengths):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def main():
    torch.manual_seed(5)
    train = DataLoader(list(read('data/gestures/train.tfrecord')), 30, shuffle=True, collate_fn=collate)
    val = DataLoader(list(read('data/gestures/val.tfrecord')), 40, collate_fn=collate)
    model = Classifier()
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for epoch in range(8):
        model.train()
        for x, n, y in train:
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x, n), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        model.eval()
        with torch.inference_mode():
            acc = torch.cat([model(x, n).argmax(1) == y for x, n, y in val]).float().mean()
        print(epoch, f'{loss.item():.3f}', f'{acc:.3f}')


if __name__ == '__main__':
    main()
