import tensorflow as tf

SCHEMA = {"img": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}


def parse(rec):
    row = tf.io.parse_single_example(rec, SCHEMA)
    img = tf.io.decode_raw(row["img"], tf.uint8)
    img = tf.cast(tf.reshape(img, [14, 14, 1]), tf.float32)
    return img, row["y"]


def open_records(path, batch, shuffle=0):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(shuffle)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)
