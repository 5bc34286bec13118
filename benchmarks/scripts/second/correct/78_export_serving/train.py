"""Train, export with a signature that parses tf.train.Example, load again and compare."""
import os
import tempfile

import numpy as np
import tensorflow as tf

TRAIN_SPEC = {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
SERVE_SPEC = {"features": TRAIN_SPEC["features"]}


def vector(raw):
    return tf.reshape(tf.io.decode_raw(raw, tf.float32), [-1, 16])


def parse(batch):
    f = tf.io.parse_example(batch, TRAIN_SPEC)
    return vector(f["features"]), f["label"]


train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").shuffle(400).batch(40).map(parse).prefetch(1)
val_records = tf.data.TFRecordDataset("data/vectors/val.tfrecord").batch(100)

model = tf.keras.Sequential([
    tf.keras.Input((16,)), tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(3, "softmax")])
model.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val_records.map(parse), epochs=4, verbose=2)


class Server(tf.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.weights = model.variables

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        f = tf.io.parse_example(examples, SERVE_SPEC)
        return {"probabilities": self.model(vector(f["features"]), training=False)}


with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "1")
    server = Server(model)
    tf.saved_model.save(server, path, signatures={"serving_default": server.serve})
    loaded = tf.saved_model.load(path).signatures["serving_default"]
    records = next(iter(val_records))
    a = loaded(examples=records)["probabilities"].numpy()
    b = model.predict(parse(records)[0], verbose=0)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    print("the served model agrees with the trained one on", len(a), "records")
