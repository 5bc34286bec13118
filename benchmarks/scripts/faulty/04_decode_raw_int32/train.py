import tensorflow as tf
from tensorflow import keras


class VectorReader:
    """Reads serialized feature vectors with an integer label."""

    DIM = 16

    def __init__(self, path, batch_size=32):
        self.path = path
        self.batch_size = batch_size
        self.spec = {
            "features": tf.io.FixedLenFeature((), tf.string),
            "label": tf.io.FixedLenFeature((), tf.int64),
        }

    def _decode(self, serialized):
        ex = tf.io.parse_single_example(serialized, self.spec)
        vec = tf.io.decode_raw(ex["features"], tf.int32)
        vec = tf.reshape(vec, [self.DIM])
        return tf.cast(vec, tf.float32), ex["label"]

    def dataset(self, shuffle=False):
        ds = tf.data.TFRecordDataset(self.path).map(self._decode)
        if shuffle:
            ds = ds.shuffle(400)
        return ds.batch(self.batch_size).prefetch(1)


def build():
    inp = keras.Input(shape=(VectorReader.DIM,))
    x = keras.layers.Dense(32, activation="relu")(inp)
    x = keras.layers.Dense(16, activation="relu")(x)
    out = keras.layers.Dense(3, activation="softmax")(x)
    return keras.Model(inp, out)


if __name__ == "__main__":
    train = VectorReader("data/vectors/train.tfrecord").dataset(shuffle=True)
    val = VectorReader("data/vectors/val.tfrecord").dataset()
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=val, epochs=10, verbose=2)
