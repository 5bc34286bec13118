"""Turn a folder of pictures, one sub-folder per class, into TFRecord shards."""
import json
import pathlib
import random

import numpy as np
import tensorflow as tf


def draw_example_pictures(root):
    """A stand-in for the real photographs: bright or dark, with horizontal or vertical bars."""
    rng = np.random.default_rng(0)
    for name, axis in (("horizontal", 0), ("vertical", 1)):
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(160):
            bars = (np.arange(20) + rng.integers(6)) // 3 % 2 * 120
            picture = np.broadcast_to(bars[:, None] if axis == 0 else bars[None, :], (20, 20))
            picture = np.clip(picture + rng.normal(60, 25, (20, 20)), 0, 255).astype(np.uint8)
            tf.io.write_file(str(folder / f"{i:04d}.png"), tf.io.encode_png(picture[..., None]))


def convert(root, out, shards=3, val_fraction=0.2, seed=13):
    classes = sorted(p.name for p in root.iterdir() if p.is_dir())
    paths = sorted(root.glob("*/*.png"))
    random.Random(seed).shuffle(paths)
    cut = int(len(paths) * val_fraction)
    out.mkdir(parents=True, exist_ok=True)
    for split, part, count in (("val", paths[:cut], 1), ("train", paths[cut:], shards)):
        for shard in range(count):
            name = f"{split}-{shard:03d}-of-{count:03d}.tfrecord"
            with tf.io.TFRecordWriter(str(out / name)) as writer:
                for path in part[shard::count]:
                    feature = {
                        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()])),
                        "class": tf.train.Feature(
                            int64_list=tf.train.Int64List(value=[classes.index(path.parent.name)])),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=feature))
                    writer.write(example.SerializeToString())
    (out / "info.json").write_text(json.dumps({"classes": classes, "train": len(paths) - cut, "val": cut}))


if __name__ == "__main__":
    draw_example_pictures(pathlib.Path("bars/raw"))
    convert(pathlib.Path("bars/raw"), pathlib.Path("bars/tfrecord"))
