import tensorflow as tf

features = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "target": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    ex = tf.io.parse_single_example(record, features)
    image = tf.io.decode_png(ex["image"], channels=3)
    image = tf.image.resize(image, (32, 32)) / 255.0
    return image, tf.cast(ex["target"], tf.float32)


dataset = tf.data.TFRecordDataset("data/cats_dogs/train.tfrecord").map(parse).shuffle(300, seed=1, reshuffle_each_iteration=False)
test = tf.data.TFRecordDataset("data/cats_dogs/val.tfrecord").map(parse).batch(20)

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["AUC"])
model.fit(dataset.batch(20), epochs=4, validation_split=0.2, verbose=2)
print(model.evaluate(test, verbose=0))
