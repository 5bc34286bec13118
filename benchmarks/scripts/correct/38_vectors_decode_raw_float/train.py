import tensorflow as tf

DIM = 16


@tf.function
def parse(batch):
    # parse a whole batch of serialized examples
    cols = tf.io.parse_example(batch, {
        "features": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    x = tf.io.decode_raw(cols["features"], out_type=tf.float32, little_endian=True)
    return tf.ensure_shape(x, [None, DIM]), cols["label"]


train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").shuffle(400).batch(32).map(parse).prefetch(1)
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").batch(100).map(parse)

model = tf.keras.Sequential([
    tf.keras.layers.InputLayer(shape=(DIM,)),
    tf.keras.layers.Dense(32, activation="selu", kernel_initializer="lecun_normal"),
    tf.keras.layers.AlphaDropout(0.1),
    tf.keras.layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="nadam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=8, validation_data=val, verbose=2)
