# Sentiment in 60 lines: TextVectorization + averaged embeddings
import tensorflow as tf
from tensorflow.keras import layers

VOCAB, LENGTH = 200, 30


def parse(record):
    row = tf.io.parse_single_example(record, {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return row["text"], tf.cast(row["label"], tf.float32)


raw_train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse)
raw_val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse)

# The vocabulary comes from the training texts alone.
vectorize = layers.TextVectorization(max_tokens=VOCAB, output_sequence_length=LENGTH)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(64))


def prepare(ds):
    return ds.batch(32).map(lambda text, label: (vectorize(text), label)).prefetch(1)


train, val = prepare(raw_train.shuffle(400)), prepare(raw_val)

model = tf.keras.Sequential([
    layers.Input((LENGTH,), dtype="int64"),
    layers.Embedding(VOCAB, 16, mask_zero=True),
    layers.GlobalAveragePooling1D(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.BinaryAccuracy()],
)
model.fit(train, validation_data=val, epochs=6, verbose=2)
print(dict(zip(model.metrics_names, model.evaluate(val, verbose=0))))
