import tensorflow as tf

from columns import BUCKETS, JOBS, split_label


def load(pattern, training):
    ds = tf.data.Dataset.list_files(pattern, shuffle=training).interleave(tf.data.TFRecordDataset, cycle_length=2)
    if training:
        ds = ds.shuffle(600)
    return ds.batch(50).map(split_label).prefetch(1)


def build():
    inputs = {
        "age": tf.keras.Input((), dtype="int64", name="age"),
        "hours": tf.keras.Input((), name="hours"),
        "gain": tf.keras.Input((), name="gain"),
        "job": tf.keras.Input((), dtype="string", name="job"),
        "married": tf.keras.Input((), dtype="int64", name="married"),
    }
    column = tf.keras.layers.Reshape((1,))
    age = tf.keras.layers.Discretization(bin_boundaries=BUCKETS, output_mode="one_hot")(column(inputs["age"]))
    job = tf.keras.layers.StringLookup(vocabulary=JOBS, output_mode="one_hot")(column(inputs["job"]))
    hours = tf.keras.layers.Rescaling(1 / 40.0)(column(inputs["hours"]))
    gain = tf.keras.layers.Rescaling(1e-4)(column(inputs["gain"]))
    married = tf.keras.layers.CategoryEncoding(num_tokens=2, output_mode="one_hot")(column(inputs["married"]))
    x = tf.keras.layers.Concatenate()([age, job, hours, gain, married])
    x = tf.keras.layers.Dense(16, activation="relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(x))


if __name__ == "__main__":
    model = build()
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=["accuracy"])
    model.fit(load("data/adult/train-*.tfrecord", True), validation_data=load("data/adult/val-*.tfrecord", False),
              epochs=5, class_weight={0: 1.0, 1: 2.0}, verbose=2)
