import tensorflow as tf

from netdef import CLASSES

table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(CLASSES, tf.range(len(CLASSES), dtype=tf.int64)), default_value=-1
)


def dataset(pattern: str, training: bool = False) -> tf.data.Dataset:
    def parse(record):
        row = tf.io.parse_single_example(
            record,
            {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
        )
        image = tf.ensure_shape(tf.io.decode_png(row["image"], channels=3), (48, 48, 3))
        return image, table.lookup(row["label"])

    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse)
    if training:
        ds = ds.shuffle(240)
    return ds.batch(24)
