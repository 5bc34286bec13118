"""Income prediction with Keras preprocessing layers (what feature columns used to do)."""
import tensorflow as tf
from tensorflow.keras import layers

NUMERIC = ["age", "hours", "gain"]
schema = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def to_xy(serialized):
    row = tf.io.parse_example(serialized, schema)
    y = row.pop("label")
    row["age"] = tf.cast(row["age"], tf.float32)
    row["married"] = tf.cast(row["married"], tf.float32)
    row["gain"] = tf.math.log1p(row["gain"])          # heavy tail
    return {k: tf.expand_dims(v, -1) for k, v in row.items()}, y


def dataset(pattern, training):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    if training:
        ds = ds.shuffle(600)
    return ds.batch(32).map(to_xy).prefetch(tf.data.AUTOTUNE)


train_ds = dataset("data/adult/train-*", True)
val_ds = dataset("data/adult/val-*", False)

inputs, encoded = {}, []
for name in NUMERIC:
    inputs[name] = tf.keras.Input((1,), name=name)
    norm = layers.Normalization(axis=None)
    norm.adapt(train_ds.map(lambda x, _, name=name: x[name]))
    encoded.append(norm(inputs[name]))

inputs["job"] = tf.keras.Input((1,), name="job", dtype="string")
lookup = layers.StringLookup(output_mode="one_hot")
lookup.adapt(train_ds.map(lambda x, _: x["job"]))
encoded.append(lookup(inputs["job"]))

inputs["married"] = tf.keras.Input((1,), name="married")
encoded.append(inputs["married"])

h = layers.Concatenate()(encoded)
h = layers.Dense(32, activation="relu")(h)
h = layers.Dropout(0.2)(h)
out = layers.Dense(1, activation="sigmoid")(h)

model = tf.keras.Model(inputs, out)
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss="binary_crossentropy",
    metrics=["accuracy", tf.keras.metrics.AUC(name="auc")],
)
model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)

sample = {
    "age": tf.constant([[52.0]]),
    "hours": tf.constant([[50.0]]),
    "gain": tf.math.log1p(tf.constant([[20000.0]])),
    "job": tf.constant([["tech"]]),
    "married": tf.constant([[1.0]]),
}
print(f"P(high income) = {model(sample, training=False)[0, 0]:.2f}")
