import tensorflow as tf
import keras

max_features = 1000
maxlen = 40
embedding_dim = 16
num_classes = 4


def parse(example):
    parsed = tf.io.parse_single_example(example, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    tokens = tf.sparse.to_dense(parsed["tokens"])[:maxlen]
    tokens = tf.pad(tokens, [[0, maxlen - tf.shape(tokens)[0]]])
    return tf.ensure_shape(tokens, [maxlen]), parsed["label"]


def load(split):
    files = sorted(tf.io.gfile.glob(f"data/tokens/{split}-*.tfrecord"))
    return tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=tf.data.AUTOTUNE)


train_ds = load("train").cache().shuffle(400).batch(32).prefetch(tf.data.AUTOTUNE)
val_ds = load("val").batch(32)

inputs = keras.Input(shape=(maxlen,), dtype="int64")
x = keras.layers.Embedding(max_features, embedding_dim)(inputs)
x = keras.layers.Conv1D(32, 3, activation="relu")(x)
x = keras.layers.GlobalMaxPooling1D()(x)
x = keras.layers.Dense(32, activation="relu")(x)
predictions = keras.layers.Dense(num_classes, activation="softmax")(x)
model = keras.Model(inputs, predictions)

model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=6)
