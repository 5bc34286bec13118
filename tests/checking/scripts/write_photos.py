"""Writes images into shards, one at a time, in random order."""

import pathlib
import random

import tensorflow as tf

SHARDS = 4


def to_example(path, class_ids):
    image = path.read_bytes()
    label = class_ids[path.parent.name]
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
        )
    )


def write_shard(paths, shard, class_ids, out):
    name = f"{out}/photos-{shard:05d}-of-{SHARDS:05d}.tfrecord"
    with tf.io.TFRecordWriter(name) as writer:
        for path in paths:
            writer.write(to_example(path, class_ids).SerializeToString())


def main(folder, out):
    paths = sorted(pathlib.Path(folder).glob("*/*.jpg"))
    names = sorted({path.parent.name for path in paths})
    class_ids = {name: i for i, name in enumerate(names)}
    random.seed(1)
    random.shuffle(paths)
    pathlib.Path(out).mkdir(exist_ok=True)
    for shard in range(SHARDS):
        write_shard(paths[shard::SHARDS], shard, class_ids, out)


if __name__ == "__main__":
    main("folders/train", "written")
