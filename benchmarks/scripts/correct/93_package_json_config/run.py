import argparse
import json
import pathlib

from shapenet.datasets import ShapesDataset
from shapenet.models import build
from shapenet.trainer import Trainer

HERE = pathlib.Path(__file__).parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=HERE / "config.json", type=pathlib.Path)
    config = json.loads(parser.parse_args().config.read_text())

    train = ShapesDataset(config["data"]["train"], config["image_size"], shuffle=config["data"]["shuffle"])
    val = ShapesDataset(config["data"]["val"], config["image_size"])
    model = build(config["model"], config["image_size"], config["num_classes"])
    Trainer(model, config).fit(train(config["batch_size"]), val(config["batch_size"]))


if __name__ == "__main__":
    main()
