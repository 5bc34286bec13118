import argparse
from dataclasses import dataclass, fields


@dataclass
class Config:
    train_file: str = "data/tags/train.tfrecord"
    dev_file: str = "data/tags/val.tfrecord"
    vocab_size: int = 500
    num_tags: int = 5
    hidden: int = 24
    batch_size: int = 25
    epochs: int = 5
    lr: float = 0.01

    @classmethod
    def from_args(cls):
        parser = argparse.ArgumentParser()
        for field in fields(cls):
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
        return cls(**vars(parser.parse_args()))
