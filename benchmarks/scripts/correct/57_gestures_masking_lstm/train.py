import tensorflow as tf

PAD = -10.0     # frames lie between about -3 and 3


def parse(record):
    context, sequence = tf.io.parse_single_sequence_example(
        record,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return sequence["frames"], context["label"]


def batches(path, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(parse)
    if shuffle:
        ds = ds.shuffle(300)
    return ds.padded_batch(30, padded_shapes=([None, 6], []), padding_values=(PAD, tf.constant(0, tf.int64)))


model = tf.keras.Sequential([
    tf.keras.Input((None, 6)),
    tf.keras.layers.Masking(mask_value=PAD),
    tf.keras.layers.LSTM(24),
    tf.keras.layers.Dense(5, activation="softmax"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(batches("data/gestures/train.tfrecord", True), validation_data=batches("data/gestures/val.tfrecord"),
          epochs=6, verbose=2)
