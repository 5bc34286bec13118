import tensorflow as tf

PAD = -10.0  # outside the range of the sensor, so that it cannot be a reading
N_CLASSES = 5


def decode(serialized):
    context, sequence = tf.io.parse_single_sequence_example(
        serialized,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return sequence["frames"], context["label"]


def pipeline(path, batch_size, shuffle):
    ds = tf.data.TFRecordDataset(path).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(300)
    ds = ds.padded_batch(
        batch_size,
        padded_shapes=([None, 6], []),
        padding_values=(PAD, tf.constant(0, tf.int64)),
    )
    return ds.prefetch(tf.data.AUTOTUNE)


class GestureNet(tf.keras.Model):
    def __init__(self, units=32):
        super().__init__()
        self.mask = tf.keras.layers.Masking(mask_value=PAD)
        self.rnn = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(units))
        self.drop = tf.keras.layers.Dropout(0.1)
        self.head = tf.keras.layers.Dense(N_CLASSES)

    def call(self, frames, training=False):
        h = self.rnn(self.mask(frames), training=training)
        return self.head(self.drop(h, training=training))


if __name__ == "__main__":
    model = GestureNet()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-2, clipnorm=1.0),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        pipeline("data/gestures/train.tfrecord", 20, shuffle=True),
        validation_data=pipeline("data/gestures/val.tfrecord", 40, shuffle=False),
        epochs=4,
        verbose=2,
    )
