import tensorflow as tf
import keras

TRAIN_FILE = "data/shapes_gzip/train.tfrecord.gz"
VAL_FILE = "data/shapes_gzip/val.tfrecord.gz"
NUM_EPOCHS = 8
EPOCHS_PER_DECAY = 5


def parse_fn(data_record):
    sample = tf.io.parse_single_example(
        data_record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.io.decode_jpeg(sample["image"], channels=3)
    image = tf.reshape(image, (32, 32, 3))
    return tf.cast(image, "float32") / 255.0, sample["label"]


def read(path):
    return tf.data.TFRecordDataset(path, compression_type="GZIP").map(parse_fn, num_parallel_calls=2)


train_ds = read(TRAIN_FILE).shuffle(320).batch(16).prefetch(2)
val_ds = read(VAL_FILE).batch(16)

lr_schedule = keras.optimizers.schedules.ExponentialDecay(
    initial_learning_rate=1e-3,
    decay_steps=EPOCHS_PER_DECAY,
    decay_rate=0.1,
    staircase=True,
)

model = keras.Sequential()
model.add(keras.layers.Input((32, 32, 3)))
for f in [16, 32]:
    model.add(keras.layers.Conv2D(f, 3, padding="same", activation="relu"))
    model.add(keras.layers.MaxPooling2D())
model.add(keras.layers.Flatten())
model.add(keras.layers.Dense(4, activation="softmax"))

model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=lr_schedule),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=NUM_EPOCHS, validation_data=val_ds)
