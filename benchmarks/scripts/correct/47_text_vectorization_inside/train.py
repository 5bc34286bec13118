import tensorflow as tf

VOCAB_SIZE = 300

spec = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def load(path):
    return tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec)).map(
        lambda d: (d["text"], d["label"])
    )


train = load("data/reviews/train.tfrecord")
val = load("data/reviews/val.tfrecord").batch(50)

encoder = tf.keras.layers.TextVectorization(max_tokens=VOCAB_SIZE)
encoder.adapt(train.map(lambda text, _: text).batch(100))
print(len(encoder.get_vocabulary()), "words")

text = tf.keras.Input((), dtype=tf.string, name="text")
x = encoder(text)
x = tf.keras.layers.Embedding(input_dim=VOCAB_SIZE, output_dim=16, mask_zero=True)(x)
x = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(12))(x)
x = tf.keras.layers.Dense(12, activation="relu")(x)
logit = tf.keras.layers.Dense(1)(x)
model = tf.keras.Model(text, logit)

model.compile(
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    optimizer=tf.keras.optimizers.Adam(5e-3),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
)
model.fit(train.shuffle(400).batch(32), epochs=4, validation_data=val, verbose=2)
