import tensorflow as tf

feature_description = {
    "features": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(example_proto):
    d = tf.io.parse_single_example(example_proto, feature_description)
    x = tf.io.decode_raw(d["features"], tf.float32)
    return tf.ensure_shape(x, [16]), d["label"]


dataset = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse).shuffle(400).batch(20)

model = tf.keras.Sequential([
    tf.keras.layers.Input(shape=(16,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=5, validation_split=0.2)
