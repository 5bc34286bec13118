# data: reviews
import tensorflow as tf
from tensorflow.keras import Sequential
from tensorflow.keras.layers import Embedding, LSTM, Dense, Bidirectional

VOCAB = 512

def parse(rec):
    ex = tf.io.parse_single_example(rec, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([1], tf.int64),
    })
    return tf.sparse.to_dense(ex["tokens"])[:64], ex["label"]

def pipeline(pattern, train):
    ds = tf.data.Dataset.list_files(pattern, shuffle=train)
    ds = ds.interleave(tf.data.TFRecordDataset)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if train:
        ds = ds.cache().shuffle(400)
    return ds.padded_batch(16, padded_shapes=([None], [1])).prefetch(1)

train_ds = pipeline("reviews/train-*.tfrecord", True)
val_ds = pipeline("reviews/val-*.tfrecord", False)

model = Sequential([
    Embedding(VOCAB, 16, mask_zero=True),
    Bidirectional(LSTM(16)),
    Dense(16, activation="relu"),
    Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=4)
loss, acc = model.evaluate(val_ds)
print(f"val acc {acc:.3f}")
