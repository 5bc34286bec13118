import keras
import tensorflow as tf
from keras import layers

VOCAB, MAXLEN = 2000, 40


def parse(record):
    tokens = tf.io.parse_single_example(record, {"tokens": tf.io.RaggedFeature(tf.int64)})["tokens"]
    tokens = tokens[: MAXLEN + 1]
    x, y = tokens[:-1], tokens[1:]
    return x, y, tf.ones_like(y, tf.float32)


def make(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/tokens/{split}-*.tfrecord"))).map(parse)


shapes = ([MAXLEN], [MAXLEN], [MAXLEN])
train = make("train").cache().shuffle(400).padded_batch(32, padded_shapes=shapes)
val = make("val").padded_batch(50, padded_shapes=shapes)


@keras.saving.register_keras_serializable()
def perplexity(y_true, y_pred):
    mask = keras.ops.cast(y_true > 0, "float32")
    ce = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
    return keras.ops.exp(keras.ops.sum(ce * mask, axis=-1) / keras.ops.sum(mask, axis=-1))


inputs = keras.Input((MAXLEN,), dtype="int64")
x = layers.Embedding(VOCAB, 32)(inputs)
# causal attention: a step sees only what came before
a = layers.MultiHeadAttention(num_heads=2, key_dim=16)(x, x, use_causal_mask=True)
x = layers.LayerNormalization()(x + a)
x = layers.Dense(48, activation="gelu")(x)
logits = layers.Dense(VOCAB)(x)
model = keras.Model(inputs, logits)
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[perplexity],
)
model.fit(train, validation_data=val, epochs=3, verbose=2)
