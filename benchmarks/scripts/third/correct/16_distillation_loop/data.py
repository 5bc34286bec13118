import tensorflow as tf


def digits(split, bs):
    def f(r):
        e = tf.io.parse_single_example(r, {'image_raw': tf.io.FixedLenFeature([], tf.string),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        x = tf.reshape(tf.io.decode_raw(e['image_raw'], tf.uint8), [28, 28, 1])
        return tf.image.convert_image_dtype(x, tf.float32), e['label']
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f'data/digits/{split}-*'))).map(f).cache()
    return ds.shuffle(500).batch(bs) if split == 'train' else ds.batch(bs)
