# data: clips
import tensorflow as tf
from tensorflow import keras

CONTEXT = {"label": tf.io.FixedLenFeature([], tf.int64), "length": tf.io.FixedLenFeature([], tf.int64)}
FRAMES = {"frames": tf.io.FixedLenSequenceFeature([8], tf.float32)}


def parse(serialized):
    context, lists = tf.io.parse_single_sequence_example(
        serialized, context_features=CONTEXT, sequence_features=FRAMES
    )
    return lists["frames"], context["label"]


def dataset(path, training):
    ds = tf.data.TFRecordDataset(path)
    if training:
        ds = ds.shuffle(200)
    ds = ds.map(parse)
    ds = ds.padded_batch(8, padded_shapes=([12, 8], []))
    return ds.prefetch(2)


inputs = keras.Input((12, 8))
x = keras.layers.Masking()(inputs)
x = keras.layers.GRU(16)(x)
outputs = keras.layers.Dense(3)(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(dataset("clips/train-00000-of-00001.tfrecord", True), validation_data=dataset("clips/val-00000-of-00001.tfrecord", False), epochs=3)
