"""Lists of ids of different length -> multi-hot rows."""
import tensorflow as tf


def multi_hot(ids: tf.Tensor, classes: int) -> tf.Tensor:
    """ids: (batch, n) padded with -1. one_hot gives a row of zeros for -1, so padding disappears."""
    return tf.reduce_max(tf.one_hot(ids, classes), axis=1)
