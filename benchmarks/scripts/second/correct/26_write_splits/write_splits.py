"""Split a pool of pictures into train/val/test shards, stratified by label. Trains nothing."""
import argparse
import collections
import os
import random

import tensorflow as tf


def label_of(serialized: bytes) -> int:
    return tf.train.Example.FromString(serialized).features.feature["label"].int64_list.value[0]


def write_shards(records, out_dir, name, shards):
    paths = [os.path.join(out_dir, f"{name}-{i:05d}-of-{shards:05d}.tfrecord") for i in range(shards)]
    writers = [tf.io.TFRecordWriter(p) for p in paths]
    try:
        for i, record in enumerate(records):
            writers[i % shards].write(record)
    finally:
        for w in writers:
            w.close()
    return paths


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--source", default="data/shapes_pool/all.tfrecord")
    ap.add_argument("--out", required=True)
    ap.add_argument("--shards", type=int, default=4)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rng = random.Random(args.seed)

    groups = collections.defaultdict(list)
    for rec in tf.data.TFRecordDataset(args.source).as_numpy_iterator():
        groups[label_of(rec)].append(rec)

    parts = {"train": [], "val": [], "test": []}
    for label in sorted(groups):
        recs = groups[label]
        rng.shuffle(recs)
        n_train, n_val = int(0.7 * len(recs)), int(0.15 * len(recs))
        parts["train"] += recs[:n_train]
        parts["val"] += recs[n_train:n_train + n_val]
        parts["test"] += recs[n_train + n_val:]

    for name, recs in parts.items():
        rng.shuffle(recs)       # mixed order on disk, so that readers need only a small buffer
        shards = args.shards if name == "train" else 1
        paths = write_shards(recs, args.out, name, shards)
        count = sum(1 for p in paths for _ in tf.data.TFRecordDataset(p))
        assert count == len(recs)
        print(f"{name}: {count} records in {len(paths)} files", collections.Counter(map(label_of, recs)))


if __name__ == "__main__":
    main()
