# data: digits
# args: --epochs 3
"""Run as `python -m package_run --epochs 3`."""
import argparse

from package_run.flowers.data import build
from package_run.flowers.net import make_net

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    train, val = build("train", args.batch), build("val", args.batch)
    net = make_net()
    net.fit(train, validation_data=val, epochs=args.epochs)
