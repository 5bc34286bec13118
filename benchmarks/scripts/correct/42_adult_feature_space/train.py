import keras
import tensorflow as tf
from keras.utils import FeatureSpace

columns = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def to_row(record):
    row = tf.io.parse_single_example(record, columns)
    target = row.pop("label")
    row["any_gain"] = tf.cast(row.pop("gain") > 0, tf.int64)
    return row, target


train_ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/adult/train-*"))).map(to_row).shuffle(600)
val_ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/adult/val-*"))).map(to_row)
train_ds = train_ds.batch(32)
val_ds = val_ds.batch(32)

feature_space = FeatureSpace(
    features={
        "married": "integer_categorical",
        "any_gain": "integer_categorical",
        "job": "string_categorical",
        "age": "float_discretized",
        "hours": "float_normalized",
    },
    crosses=[("job", "married")],
    crossing_dim=16,
    output_mode="concat",
)
feature_space.adapt(train_ds.map(lambda x, _: x))

prepared_train = train_ds.map(lambda x, y: (feature_space(x), y), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
prepared_val = val_ds.map(lambda x, y: (feature_space(x), y), num_parallel_calls=tf.data.AUTOTUNE)

encoded = feature_space.get_encoded_features()
x = keras.layers.Dense(32, activation="relu")(encoded)
x = keras.layers.Dropout(0.5)(x)
predictions = keras.layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs=encoded, outputs=predictions)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(prepared_train, epochs=6, validation_data=prepared_val, verbose=2)
