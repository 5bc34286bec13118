import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

JOBS = ["clerk", "farmer", "sales", "tech"]


def get_dataset(pattern, batch_size, shuffle):
    # reads, shuffles, batches and parses at once; yields (dict of columns, label)
    return tf.data.experimental.make_batched_features_dataset(
        file_pattern=pattern,
        batch_size=batch_size,
        features={
            "age": tf.io.FixedLenFeature([], tf.int64),
            "hours": tf.io.FixedLenFeature([], tf.float32),
            "gain": tf.io.FixedLenFeature([], tf.float32),
            "job": tf.io.FixedLenFeature([], tf.string),
            "married": tf.io.FixedLenFeature([], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
        label_key="label",
        num_epochs=1,
        shuffle=shuffle,
        shuffle_buffer_size=1000,
    )


train = get_dataset("data/adult/train-*.tfrecord", 40, shuffle=True)
val = get_dataset("data/adult/val-*.tfrecord", 50, shuffle=False)

inputs = {
    "age": keras.Input((), name="age", dtype="int64"),
    "hours": keras.Input((), name="hours"),
    "gain": keras.Input((), name="gain"),
    "job": keras.Input((), name="job", dtype="string"),
    "married": keras.Input((), name="married", dtype="int64"),
}
job_id = layers.StringLookup(vocabulary=JOBS, num_oov_indices=1)(inputs["job"])
age_bucket = layers.Discretization([25, 30, 35, 40, 45, 50, 60])(inputs["age"])

wide = layers.Concatenate()([
    layers.CategoryEncoding(num_tokens=8, output_mode="one_hot")(age_bucket),
    layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(job_id),
    layers.CategoryEncoding(num_tokens=2, output_mode="one_hot")(inputs["married"]),
])
deep = layers.Concatenate()([
    layers.Embedding(5, 4)(job_id),
    layers.Reshape((1,))(layers.Rescaling(1 / 40)(inputs["hours"])),
    # dollars: 0..100000
    layers.Reshape((1,))(layers.Rescaling(1e-4)(inputs["gain"])),
])
deep = layers.Dense(16, activation="relu")(deep)
out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([wide, deep]))

model = keras.Model(inputs, out)
model.compile(keras.optimizers.Adam(5e-3), "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
model.fit(train, epochs=5, validation_data=val, verbose=2)
