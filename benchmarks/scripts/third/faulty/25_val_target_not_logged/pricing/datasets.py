import tensorflow as tf

from pricing.features import log_price, parse


def training(path: str, batch_size: int) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(path).map(parse).map(log_price)
    return ds.cache().shuffle(1000).batch(batch_size)


def validation(path: str, batch_size: int) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path).map(parse).cache().batch(batch_size)
