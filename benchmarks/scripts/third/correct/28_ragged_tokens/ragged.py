# Ragged batches: no padding at all until the model asks for it
import tensorflow as tf

spec = {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}


def load(pattern, shuffle):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)))
    if shuffle:
        ds = ds.shuffle(400)
    # parse_example returns ragged rows for the whole batch
    ds = ds.batch(25).map(lambda batch: tf.io.parse_example(batch, spec))
    # Keras wants dense tensors: zeros at the end, and 0 is not a token id
    return ds.map(lambda row: (row["tokens"].to_tensor(default_value=0, shape=[None, 40]), row["label"]))


train = load("data/tokens/train-*.tfrecord", True)
val = load("data/tokens/val-*.tfrecord", False)
for x, y in val.take(1):
    print("first row:", x[0].numpy())

inputs = tf.keras.Input((40,), dtype="int64")
x = tf.keras.layers.Embedding(2000, 16, mask_zero=True)(inputs)
x = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(12))(x)
outputs = tf.keras.layers.Dense(4, activation="softmax")(x)
model = tf.keras.Model(inputs, outputs)
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=4, verbose=2)
