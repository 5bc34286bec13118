import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(0)
BINS = 1024


def parse(record):
    f = tf.io.parse_single_example(record, {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(f["text"]), r"[^a-z ]", ""))
    # no vocabulary to fit: words go to 1..1023, 0 is padding
    ids = 1 + tf.strings.to_hash_bucket_fast(words, BINS - 1)
    return ids, f["label"]


train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse).cache().shuffle(400)
train = train.padded_batch(32, padded_shapes=([32], []))
val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse).padded_batch(50, padded_shapes=([32], []))

model = keras.Sequential([
    keras.Input((32,), dtype="int64"),
    layers.Embedding(BINS, 16, mask_zero=True),
    layers.GlobalAveragePooling1D(),
    layers.Dense(1, activation="sigmoid"),
])
optimizer = keras.optimizers.Adam(1e-2, global_clipnorm=1.0, use_ema=True, ema_momentum=0.9)
model.compile(optimizer=optimizer, loss="binary_crossentropy", metrics=["accuracy"], steps_per_execution=4)
model.fit(
    train, validation_data=val, epochs=6, verbose=2,
    callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
)
