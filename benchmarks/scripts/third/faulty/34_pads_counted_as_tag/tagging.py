# Sequence tagging with a bidirectional GRU
import tensorflow as tf

VOCAB, TAGS = 500, 5


def parse(record):
    row = tf.io.parse_single_example(record, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "tags": tf.io.VarLenFeature(tf.int64),
    })
    return tf.sparse.to_dense(row["tokens"]), tf.sparse.to_dense(row["tags"])


def load(path, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(parse)
    if shuffle:
        ds = ds.shuffle(300)
    return ds.padded_batch(30, padded_shapes=([20], [20]))


train = load("data/tags/train.tfrecord", shuffle=True)
val = load("data/tags/val.tfrecord")

# The network sees the whole sentence in both directions.
tokens = tf.keras.Input((20,), dtype="int64")
x = tf.keras.layers.Embedding(VOCAB, 24)(tokens)
x = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(16, return_sequences=True))(x)
out = tf.keras.layers.Dense(TAGS, activation="softmax")(x)
model = tf.keras.Model(tokens, out)
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=6, verbose=2)

loss, accuracy = model.evaluate(val, verbose=0)
print(f"token accuracy {accuracy:.3f}")
