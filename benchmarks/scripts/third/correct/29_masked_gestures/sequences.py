"""Reader for the gesture recordings."""
import tensorflow as tf

PAD = -9.0


def parse(record):
    context, lists = tf.io.parse_single_sequence_example(
        record,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64), "length": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return lists["frames"], context["label"]


def bucketed(path, training):
    """Batches of sequences of like length."""
    ds = tf.data.TFRecordDataset(path).map(parse).cache()
    if training:
        ds = ds.shuffle(300)
    return ds.bucket_by_sequence_length(
        element_length_func=lambda frames, label: tf.shape(frames)[0],
        bucket_boundaries=[16, 22, 27],
        bucket_batch_sizes=[30, 25, 20, 20],
        padding_values=(PAD, tf.constant(0, tf.int64)),
    )
