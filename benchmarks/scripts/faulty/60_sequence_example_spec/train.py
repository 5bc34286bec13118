import tensorflow as tf

NUM_CHANNELS = 6
NUM_CLASSES = 5

context_features = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "length": tf.io.FixedLenFeature([], tf.int64),
}
sequence_features = {
    "frames": tf.io.FixedLenFeature([NUM_CHANNELS], tf.float32),
}


def parse_sequence(serialized):
    context, sequence = tf.io.parse_single_sequence_example(
        serialized, context_features=context_features, sequence_features=sequence_features
    )
    return sequence["frames"], context["label"]


def dataset(path, train):
    ds = tf.data.TFRecordDataset(path).map(parse_sequence)
    if train:
        ds = ds.shuffle(300)
    return ds.padded_batch(20, padded_shapes=([None, NUM_CHANNELS], []))


model = tf.keras.Sequential([
    tf.keras.Input((None, NUM_CHANNELS)),
    tf.keras.layers.Masking(),
    tf.keras.layers.GRU(24),
    tf.keras.layers.Dense(NUM_CLASSES, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset("data/gestures/train.tfrecord", True), validation_data=dataset("data/gestures/val.tfrecord", False), epochs=6)
