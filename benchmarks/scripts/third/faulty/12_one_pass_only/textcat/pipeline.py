"""Input pipeline of the ticket router."""
import tensorflow as tf

MAX_LEN = 40


def parse(serialized):
    ex = tf.io.parse_single_example(
        serialized,
        {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    return ex["tokens"][:MAX_LEN], ex["label"]


def train_dataset(pattern, batch_size):
    files = tf.data.Dataset.list_files(pattern, shuffle=True, seed=3)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    ds = ds.map(parse).shuffle(400)
    return ds.padded_batch(batch_size, padded_shapes=([MAX_LEN], []))


def eval_dataset(pattern, batch_size):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    ds = tf.data.TFRecordDataset(files).map(parse)
    return ds.padded_batch(batch_size, padded_shapes=([MAX_LEN], []))
