# Tagging toy sequences: a step is tagged 1 when its value is larger than the one before it.
import random

import tensorflow as tf

random.seed(7)
VOCAB = 30


def make_sequence():
    n = random.randint(4, 20)
    tokens = [random.randint(1, VOCAB - 1) for _ in range(n)]
    tags = [0] + [int(b > a) for a, b in zip(tokens, tokens[1:])]
    return tokens, tags


def to_sequence_example(tokens, tags):
    ex = tf.train.SequenceExample()
    ex.context.feature["length"].int64_list.value.append(len(tokens))
    token_list = ex.feature_lists.feature_list["tokens"]
    tag_list = ex.feature_lists.feature_list["tags"]
    for token, tag in zip(tokens, tags):
        token_list.feature.add().int64_list.value.append(token)
        tag_list.feature.add().int64_list.value.append(tag)
    return ex


for name, count in [("train", 600), ("dev", 150)]:
    with tf.io.TFRecordWriter(f"tagging.{name}.tfrecord") as writer:
        for _ in range(count):
            writer.write(to_sequence_example(*make_sequence()).SerializeToString())


def parse(record):
    context, sequence = tf.io.parse_single_sequence_example(
        record,
        context_features={"length": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={
            "tokens": tf.io.FixedLenSequenceFeature([], tf.int64),
            "tags": tf.io.FixedLenSequenceFeature([], tf.int64),
        },
    )
    weights = tf.ones(tf.cast(context["length"], tf.int32))
    return sequence["tokens"], sequence["tags"], weights


# Token 0 never occurs, so it pads; padded steps get weight 0.
train = (tf.data.TFRecordDataset("tagging.train.tfrecord").map(parse).shuffle(600)
         .padded_batch(32, padded_shapes=([None], [None], [None])))
dev = tf.data.TFRecordDataset("tagging.dev.tfrecord").map(parse).padded_batch(32)

inp = tf.keras.Input((None,), dtype="int64")
x = tf.keras.layers.Embedding(VOCAB, 16, mask_zero=True)(inp)
x = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(24, return_sequences=True))(x)
out = tf.keras.layers.Dense(2, activation="softmax")(x)
model = tf.keras.Model(inp, out)
model.compile("adam", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
model.fit(train, validation_data=dev, epochs=5, verbose=2)
