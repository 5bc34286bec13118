import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

MAX_TOKENS = 400
SEQ_LEN = 32
BATCH = 32


def parse_record(r):
    f = tf.io.parse_single_example(r, {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return f["text"], f["label"]


def make_split(path, shuffle):
    raw = tf.data.TFRecordDataset(path).map(parse_record)
    vectorizer = layers.TextVectorization(max_tokens=MAX_TOKENS, output_sequence_length=SEQ_LEN)
    vectorizer.adapt(raw.map(lambda t, l: t).batch(100))
    ds = raw.map(lambda t, l: (vectorizer(t), l), num_parallel_calls=tf.data.AUTOTUNE).cache()
    if shuffle:
        ds = ds.shuffle(400)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def build_model():
    inputs = keras.Input((SEQ_LEN,), dtype="int64")
    x = layers.Embedding(MAX_TOKENS, 16, mask_zero=True)(inputs)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(16, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


if __name__ == "__main__":
    train_ds = make_split("data/reviews/train.tfrecord", True)
    val_ds = make_split("data/reviews/val.tfrecord", False)
    model = build_model()
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy", metrics=["accuracy"])
    model.fit(train_ds, validation_data=val_ds, epochs=4)
