import tensorflow as tf
from tensorflow import keras

NUM_TAGS = 6


class TagNet(keras.Model):
    def __init__(self, num_tags):
        super().__init__()
        self.rescale = keras.layers.Rescaling(1 / 255.0)
        self.conv1 = keras.layers.Conv2D(16, 3, activation="relu", padding="same")
        self.conv2 = keras.layers.Conv2D(32, 3, activation="relu", padding="same")
        self.pool = keras.layers.MaxPooling2D()
        self.flat = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(64, activation="relu")
        self.classifier = keras.layers.Dense(num_tags, activation="softmax")

    def call(self, images):
        x = self.rescale(images)
        x = self.pool(self.conv1(x))
        x = self.pool(self.conv2(x))
        return self.classifier(self.hidden(self.flat(x)))


def parse(record):
    ex = tf.io.parse_single_example(
        record,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "multi_hot": tf.io.FixedLenFeature([NUM_TAGS], tf.int64),
        },
    )
    image = tf.io.decode_jpeg(ex["image"], channels=3)
    image = tf.ensure_shape(image, [32, 32, 3])
    return image, tf.cast(ex["multi_hot"], tf.float32)


train_ds = tf.data.TFRecordDataset("data/scenes/train.tfrecord").map(parse).cache().shuffle(300).batch(30).prefetch(1)
val_ds = tf.data.TFRecordDataset("data/scenes/val.tfrecord").map(parse).batch(40)

model = TagNet(NUM_TAGS)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.CategoricalCrossentropy(),
    metrics=[keras.metrics.BinaryAccuracy(), keras.metrics.AUC(multi_label=True, num_labels=NUM_TAGS)],
)
model.fit(train_ds, validation_data=val_ds, epochs=8)
