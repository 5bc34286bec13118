import tensorflow as tf

SPEC = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def files(*splits):
    return [f for s in splits for f in sorted(tf.io.gfile.glob(f"data/shapes/{s}-*.tfrecord"))]


def dataset(*splits, shuffle=False, batch=32):
    def parse(record):
        row = tf.io.parse_single_example(record, SPEC)
        image = tf.ensure_shape(tf.io.decode_jpeg(row["image/encoded"], channels=3), (32, 32, 3))
        return image, row["image/class/label"]

    ds = tf.data.TFRecordDataset(files(*splits)).map(parse).cache()
    return (ds.shuffle(500) if shuffle else ds).batch(batch)
