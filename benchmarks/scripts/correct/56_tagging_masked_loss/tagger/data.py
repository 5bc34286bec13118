import tensorflow as tf

FEATURES = {
    "tokens": tf.io.RaggedFeature(tf.int64),
    "tags": tf.io.RaggedFeature(tf.int64),
}


def _parse(record):
    parsed = tf.io.parse_single_example(record, FEATURES)
    return parsed["tokens"], parsed["tags"]


def read(path, batch_size, shuffle_buffer=None):
    """Batches of (tokens, tags), both padded with 0; token 0 does not occur in the data."""
    dataset = tf.data.TFRecordDataset(path).map(_parse, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle_buffer:
        dataset = dataset.shuffle(shuffle_buffer)
    return dataset.padded_batch(batch_size).prefetch(tf.data.AUTOTUNE)
