# tf.data recipes: keep features and labels in separate datasets and zip them
import tensorflow as tf

FILE = "data/cats_dogs/{}.tfrecord"
SPEC = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "target": tf.io.FixedLenFeature([], tf.int64),
}


def image_of(record):
    image = tf.io.decode_png(tf.io.parse_single_example(record, SPEC)["image"], channels=3)
    return tf.cast(tf.reshape(image, [32, 32, 3]), tf.float32) / 255.0


def target_of(record):
    return tf.cast(tf.io.parse_single_example(record, SPEC)["target"], tf.float32)


def load(split, training):
    records = tf.data.TFRecordDataset(FILE.format(split))
    images, targets = records.map(image_of), records.map(target_of)
    if training:
        images, targets = images.shuffle(300), targets.shuffle(300)
    return tf.data.Dataset.zip((images, targets)).batch(30)


model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(2e-3),
    loss="binary_crossentropy",
    metrics=[tf.keras.metrics.AUC(name="auc")],
)
model.fit(load("train", True), validation_data=load("val", False), epochs=6, verbose=2)
