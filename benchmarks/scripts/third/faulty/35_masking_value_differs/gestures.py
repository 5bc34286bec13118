import tensorflow as tf

MAX_STEPS = 30
PAD = -1.0


def parse(record):
    context, lists = tf.io.parse_single_sequence_example(
        record,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return lists["frames"], context["label"]


def dataset(path, training):
    ds = tf.data.TFRecordDataset(path).map(parse).cache()
    if training:
        ds = ds.shuffle(300)
    label_pad = tf.constant(0, tf.int64)
    return ds.padded_batch(25, padded_shapes=([MAX_STEPS, 6], []), padding_values=(PAD, label_pad))


model = tf.keras.Sequential([
    tf.keras.layers.Input((MAX_STEPS, 6)),
    tf.keras.layers.Masking(mask_value=0.0),
    tf.keras.layers.LSTM(24),
    tf.keras.layers.Dense(5, activation="softmax"),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(0.01),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(
    dataset("data/gestures/train.tfrecord", True),
    validation_data=dataset("data/gestures/val.tfrecord", False),
    epochs=6,
    verbose=2,
)
