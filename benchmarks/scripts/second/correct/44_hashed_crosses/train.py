import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

AGE_BINS = [25., 32., 40., 48., 56., 65.]

spec = {
    "age": tf.io.FixedLenFeature([1], tf.int64),
    "hours": tf.io.FixedLenFeature([1], tf.float32),
    "gain": tf.io.FixedLenFeature([1], tf.float32),
    "job": tf.io.FixedLenFeature([1], tf.string),
    "married": tf.io.FixedLenFeature([1], tf.int64),
    "label": tf.io.FixedLenFeature([1], tf.int64),
}


def split(batch):
    features = tf.io.parse_example(batch, spec)
    label = tf.cast(features.pop("label"), tf.float32)
    return features, label


def input_fn(pattern, training):
    ds = tf.data.Dataset.list_files(pattern, shuffle=training).interleave(tf.data.TFRecordDataset)
    if training:
        ds = ds.shuffle(1000)
    return ds.batch(50).map(split).prefetch(tf.data.AUTOTUNE)


ins = {
    "age": keras.Input((1,), name="age", dtype="int64"),
    "hours": keras.Input((1,), name="hours"),
    "gain": keras.Input((1,), name="gain"),
    "job": keras.Input((1,), name="job", dtype="string"),
    "married": keras.Input((1,), name="married", dtype="int64"),
}
bucket = layers.Discretization(bin_boundaries=AGE_BINS)(ins["age"])
cross = layers.HashedCrossing(num_bins=64, output_mode="one_hot")((bucket, layers.Hashing(16)(ins["job"])))
wide = layers.Concatenate()([cross, layers.CategoryEncoding(num_tokens=2, output_mode="one_hot")(ins["married"])])

job_vec = layers.Flatten()(layers.Embedding(16, 4)(layers.Hashing(num_bins=16)(ins["job"])))
hours = layers.Rescaling(1 / 40.0)(ins["hours"])
gain = layers.Rescaling(1 / 1e5)(ins["gain"])
age = layers.Rescaling(1 / 100.0)(ins["age"])
deep = layers.Concatenate()([job_vec, hours, gain, age])
for units in (32, 16):
    deep = layers.Dense(units, activation="relu")(deep)

logit = layers.Dense(1)(layers.Concatenate()([wide, deep]))
model = keras.Model(ins, logit)
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0), keras.metrics.AUC(from_logits=True, name="auc")],
)
model.fit(input_fn("data/adult/train-*", True), validation_data=input_fn("data/adult/val-*", False), epochs=6, verbose=2)
