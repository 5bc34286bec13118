import tensorflow as tf

SPEC = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def fast_options(threads=2):
    o = tf.data.Options()
    o.deterministic = False                     # the order need not be the same twice
    o.threading.private_threadpool_size = threads
    o.autotune.enabled = True
    o.experimental_optimization.map_parallelization = True
    return o


def decode(rec):
    d = tf.io.parse_single_example(rec, SPEC)
    # fused decode and crop: only the middle 28x28 is decoded
    im = tf.image.decode_and_crop_jpeg(d["image/encoded"], [2, 2, 28, 28], channels=3)
    return tf.ensure_shape(im, [28, 28, 3]), d["image/class/label"]


def train_ds(files, batch):
    return (
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(len(files))
        .interleave(lambda f: tf.data.TFRecordDataset(f, buffer_size=1 << 20), cycle_length=4,
                    num_parallel_calls=tf.data.AUTOTUNE)
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .ignore_errors(log_warning=True)        # a broken JPEG is skipped
        .cache()                                # uint8: a quarter of the memory of floats
        .shuffle(320)
        .batch(batch)
        .map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(fast_options())
    )


train = train_ds(tf.io.gfile.glob("data/shapes/train-*.tfrecord"), 32)
val = (tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/val-*.tfrecord")).map(decode).batch(40)
       .map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).cache())

model = tf.keras.Sequential([
    tf.keras.Input((28, 28, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=5, verbose=2)
