import keras
import tensorflow as tf
from keras import layers, ops

vocab_size, maxlen, embed_dim, num_heads, ff_dim = 2000, 40, 32, 2, 32


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.supports_masking = True
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim // num_heads)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.norm1 = layers.LayerNormalization(epsilon=1e-6)
        self.norm2 = layers.LayerNormalization(epsilon=1e-6)
        self.drop1 = layers.Dropout(rate)
        self.drop2 = layers.Dropout(rate)

    def call(self, inputs, mask=None, training=None):
        attention_mask = None if mask is None else ops.expand_dims(mask, axis=1)
        attended = self.att(inputs, inputs, attention_mask=attention_mask)
        out = self.norm1(inputs + self.drop1(attended, training=training))
        return self.norm2(out + self.drop2(self.ffn(out), training=training))


class TokenAndPosition(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(vocab_size, embed_dim, mask_zero=True)
        self.pos_emb = layers.Embedding(maxlen, embed_dim)

    def compute_mask(self, inputs, mask=None):
        return self.token_emb.compute_mask(inputs)

    def call(self, x):
        return self.token_emb(x) + self.pos_emb(ops.arange(0, ops.shape(x)[-1]))


def parse(record):
    f = tf.io.parse_single_example(record, {
        "tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)})
    tokens = f["tokens"][:maxlen]
    return tf.pad(tokens, [[0, maxlen - tf.shape(tokens)[0]]]), f["label"]


def load(split):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/tokens/{split}-*.tfrecord"))).map(parse)
    return ds.map(lambda t, y: (tf.ensure_shape(t, [maxlen]), y)).cache()


train = load("train").shuffle(400).batch(40)
val = load("val").batch(50)

inputs = layers.Input(shape=(maxlen,), dtype="int64")
x = TokenAndPosition(maxlen, vocab_size, embed_dim)(inputs)
x = TransformerBlock(embed_dim, num_heads, ff_dim)(x)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dropout(0.1)(x)
outputs = layers.Dense(4, activation="softmax")(x)
model = keras.Model(inputs=inputs, outputs=outputs)

epochs = 6
steps = 10 * epochs
schedule = keras.optimizers.schedules.PolynomialDecay(5e-3, decay_steps=steps, end_learning_rate=1e-4)
model.compile(optimizer=keras.optimizers.Adam(schedule, clipnorm=1.0), loss="sparse_categorical_crossentropy",
              metrics=["accuracy"])
model.fit(train, epochs=epochs, validation_data=val, verbose=2)
