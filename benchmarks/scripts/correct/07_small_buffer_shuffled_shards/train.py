import tensorflow as tf

# The shards were shuffled when they were written, and their order changes every epoch,
# so a modest buffer is enough here.
SHUFFLE_BUFFER = 64

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(proto):
    f = tf.io.parse_single_example(proto, FEATURES)
    img = tf.io.decode_jpeg(f["image/encoded"], channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    img.set_shape([32, 32, 3])
    return img, f["image/class/label"]


def train_pipeline(pattern):
    files = tf.data.Dataset.list_files(pattern, shuffle=True)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=4,
                          num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    ds = ds.shuffle(SHUFFLE_BUFFER)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


def eval_pipeline(pattern):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    return tf.data.TFRecordDataset(files).map(parse).batch(32)


train_ds = train_pipeline("data/shapes/train-*.tfrecord")
val_ds = eval_pipeline("data/shapes/val-*.tfrecord")
test_ds = eval_pipeline("data/shapes/test-*.tfrecord")

model = tf.keras.Sequential([
    tf.keras.layers.Input([32, 32, 3]),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPool2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(4),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(3e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
)
model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)
model.evaluate(test_ds, verbose=2)
