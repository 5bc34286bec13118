import argparse
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--dir", default="data/vectors")
parser.add_argument("--bs", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()


def parse(s):
    s = tf.io.parse_single_example(s, {
        "features": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    v = tf.io.decode_raw(s["features"], tf.float32)
    v.set_shape([16])
    return v, s["label"]


def dataset(name):
    return tf.data.TFRecordDataset(f"{args.dir}/{name}.tfrecord").map(parse, num_parallel_calls=2)


train = dataset("train").shuffle(400).prefetch(tf.data.AUTOTUNE)
val = dataset("val").prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.Input((16,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.BatchNormalization(),
    tf.keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, batch_size=args.bs, epochs=args.epochs)
