"""Input pipeline for the gesture SequenceExamples."""
import tensorflow as tf

FRAME_DIM = 6
PAD = 0.0


def _decode(serialized):
    context, sequence = tf.io.parse_single_sequence_example(
        serialized,
        context_features={
            "label": tf.io.FixedLenFeature([], tf.int64),
            "length": tf.io.FixedLenFeature([], tf.int64),
        },
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([FRAME_DIM], tf.float32)},
    )
    return sequence["frames"], context["label"]


def load(path, batch_size, training):
    ds = tf.data.TFRecordDataset(path).map(_decode, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(300)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)
