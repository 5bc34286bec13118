import tensorflow as tf
from tensorflow.keras import layers

max_tokens = 500
max_len = 32


def parse(ex):
    ex = tf.io.parse_single_example(ex, {"text": tf.io.FixedLenFeature([], tf.string),
                                         "label": tf.io.FixedLenFeature([], tf.int64)})
    return ex["text"], ex["label"]


raw_train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse)
raw_val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse)

vectorize = layers.TextVectorization(max_tokens=max_tokens, output_sequence_length=max_len)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(64))
print("vocabulary:", vectorize.vocabulary_size(), vectorize.get_vocabulary()[:8])

encode = lambda text, label: (vectorize(text), label)
train_ds = raw_train.shuffle(400).batch(32).map(encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)
val_ds = raw_val.batch(32).map(encode)

model = tf.keras.Sequential([
    layers.Input((max_len,), dtype="int64"),
    layers.Embedding(max_tokens, 16),
    layers.Conv1D(32, 3, activation="relu", padding="same"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(1),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],   # the output is a logit
)
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)

# end to end model that takes strings and gives probabilities
export = tf.keras.Sequential([tf.keras.Input((1,), dtype="string"), vectorize, model, layers.Activation("sigmoid")])
print(export.predict(tf.constant([["A great and lovely film."], ["The plot was awful and dull."]]), verbose=0))
