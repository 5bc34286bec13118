from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    train: str = "data/scenes/train.tfrecord"
    val: str = "data/scenes/val.tfrecord"
    classes: int = 6
    batch: int = 25
    epochs: int = 6
    lr: float = 2e-3
