"""How many objects of each kind are in the picture? Counts, so Poisson with a log link."""
import tensorflow as tf

NUM_KINDS = 3


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
    })
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32)
    kinds = tf.sparse.to_dense(f["image/object/class/label"]) - 1      # stored from one
    counts = tf.math.bincount(tf.cast(kinds, tf.int32), minlength=NUM_KINDS, maxlength=NUM_KINDS, dtype=tf.float32)
    return tf.ensure_shape(image, (64, 64, 3)), tf.ensure_shape(counts, (NUM_KINDS,))


train = tf.data.TFRecordDataset("data/boxes/train.tfrecord").map(parse).cache().shuffle(160).batch(16).prefetch(1)
val = tf.data.TFRecordDataset("data/boxes/val.tfrecord").map(parse).batch(40)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(NUM_KINDS, activation="exponential"),     # the expected count, always positive
])
model.compile(tf.keras.optimizers.Adam(5e-3), loss=tf.keras.losses.Poisson(), metrics=["mae"])
model.fit(train, validation_data=val, epochs=8, verbose=2)
