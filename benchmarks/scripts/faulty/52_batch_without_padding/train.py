import tensorflow as tf
from tensorflow.keras import layers

VOCAB, TAGS = 500, 5


def decode_fn(record_bytes):
    ex = tf.io.parse_single_example(
        record_bytes,
        {
            "tokens": tf.io.RaggedFeature(tf.int64),
            "tags": tf.io.RaggedFeature(tf.int64),
        },
    )
    return ex["tokens"], ex["tags"]


train = tf.data.TFRecordDataset("data/tags/train.tfrecord").map(decode_fn)
train = train.shuffle(300).batch(30)
dev = tf.data.TFRecordDataset("data/tags/val.tfrecord").map(decode_fn).padded_batch(30)

tagger = tf.keras.Sequential(
    [
        layers.Embedding(VOCAB, 24, mask_zero=True),
        layers.Bidirectional(layers.GRU(16, return_sequences=True)),
        layers.Dense(TAGS, activation="softmax"),
    ]
)
tagger.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
tagger.fit(train, validation_data=dev, epochs=5)
