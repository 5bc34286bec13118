import math

import torch
from torch.utils.data import Dataset

from fraud.records import iter_records, parse_example


class FraudDataset(Dataset):
    def __init__(self, path: str) -> None:
        rows = [parse_example(r) for r in iter_records(path)]
        self.x = torch.tensor([[*r["x"], math.log(r["amount"][0]) / 4] for r in rows])
        self.y = torch.tensor([float(r["label"][0]) for r in rows])

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int):
        return self.x[i], self.y[i]
