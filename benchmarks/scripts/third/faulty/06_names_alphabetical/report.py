# Part 5: a per-class report
# In this part we train the network from part 4 again and look at each class on its own.
import numpy as np
import tensorflow as tf

CLASS_NAMES = ["circle", "cross", "square", "stripes"]

schema = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def to_example(record):
    row = tf.io.parse_single_example(record, schema)
    image = tf.io.decode_jpeg(row["image/encoded"], channels=3)
    image = tf.ensure_shape(image, (32, 32, 3))
    return tf.cast(image, tf.float32) / 255.0, row["image/class/label"]


train_ds = (
    tf.data.Dataset.list_files("data/shapes/train-*.tfrecord")
    .interleave(tf.data.TFRecordDataset, cycle_length=4)
    .map(to_example)
    .shuffle(320)
    .batch(32)
)
test_ds = tf.data.TFRecordDataset("data/shapes/test-00000-of-00001.tfrecord").map(to_example).batch(40)

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 5, activation="relu"),
    tf.keras.layers.MaxPool2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(len(CLASS_NAMES)),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=5, verbose=2)

# A confusion matrix says more than one number.
labels, guesses = [], []
for images, y in test_ds:
    labels.append(y.numpy())
    guesses.append(model.predict(images, verbose=0).argmax(-1))
labels, guesses = np.concatenate(labels), np.concatenate(guesses)
matrix = tf.math.confusion_matrix(labels, guesses, num_classes=4).numpy()
for name, row, k in zip(CLASS_NAMES, matrix, range(4)):
    print(f"{name:8s} recall {row[k] / max(row.sum(), 1):.2f}   {row}")
