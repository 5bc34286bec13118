import tensorflow as tf
from tensorflow.keras import layers

max_tokens = 500
sequence_length = 32


def parse(ex):
    ex = tf.io.parse_single_example(ex, {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return ex["text"], ex["label"]


raw_train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse)
raw_val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse)

vectorize = layers.TextVectorization(max_tokens=max_tokens, output_sequence_length=sequence_length)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(64))

train_ds = raw_train.shuffle(400).batch(32).map(lambda t, y: (vectorize(t), y)).prefetch(1)
val_ds = raw_val.batch(32).map(lambda t, y: (vectorize(t), y))

model = tf.keras.Sequential([
    layers.Embedding(max_tokens, 16),
    layers.Dropout(0.2),
    layers.GlobalAveragePooling1D(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="softmax"),
])
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=8)
