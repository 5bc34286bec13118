"""python main.py --epochs 4"""
import argparse
import logging

from flowernet.data import build_dataset
from flowernet.engine import Trainer
from flowernet.model import build_model

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", default="data/flowers")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch", type=int, default=25)
    p.add_argument("--lr", type=float, default=4e-3)
    return p.parse_args()


def main():
    args = parse_args()
    train = build_dataset(args.data, "train", args.batch, training=True)
    val = build_dataset(args.data, "val", args.batch, training=False)
    trainer = Trainer(build_model(num_classes=5), lr=args.lr)
    trainer.run(train, val, args.epochs)


if __name__ == "__main__":
    main()
