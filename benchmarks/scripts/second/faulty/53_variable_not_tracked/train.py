import keras
import tensorflow as tf

from layers import AttentionPooling


def parse(rec):
    ctx, seq = tf.io.parse_single_sequence_example(
        rec,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return seq["frames"], ctx["label"]


def data(split):
    ds = tf.data.TFRecordDataset(f"data/gestures/{split}.tfrecord").map(parse)
    if split == "train":
        ds = ds.shuffle(300)
    return ds.padded_batch(30, ([30, 6], [])).prefetch(tf.data.AUTOTUNE)


inputs = keras.Input((30, 6))
x = keras.layers.Masking()(inputs)
x = keras.layers.GRU(24, return_sequences=True)(x)
x = AttentionPooling()(x)
outputs = keras.layers.Dense(5, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(data("train"), validation_data=data("val"), epochs=2, verbose=2)
model.save_weights("gestures.weights.h5")
