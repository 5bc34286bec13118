import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(1337)


def load(split, shuffle=False):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/shapes/{split}-*.tfrecord")))
    if shuffle:
        ds = ds.shuffle(400)

    # parse whole batches at once: cheaper than one record at a time
    def parse_batch(records):
        f = tf.io.parse_example(
            records,
            {
                "image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        images = tf.map_fn(
            lambda b: tf.io.decode_jpeg(b, channels=3),
            f["image/encoded"],
            fn_output_signature=tf.TensorSpec([32, 32, 3], tf.uint8),
        )
        return images, f["image/class/label"]

    return ds.batch(40).map(parse_batch).prefetch(1)


data_augmentation = keras.Sequential(
    [layers.RandomFlip("horizontal"), layers.RandomTranslation(0.08, 0.08), layers.RandomContrast(0.1, value_range=(0, 1))],
    name="augmentation",
)

inputs = keras.Input(shape=(32, 32, 3), dtype="uint8")
x = layers.Rescaling(1.0 / 255)(inputs)
x = data_augmentation(x)
for size in (16, 32, 48):
    x = layers.SeparableConv2D(size, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
x = layers.Flatten()(x)
x = layers.Dense(48, activation="relu")(x)
outputs = layers.Dense(4)(x)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(4e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
)
model.fit(load("train", shuffle=True), validation_data=load("val"), epochs=6, verbose=2)

print("test:", model.evaluate(load("test"), verbose=0, return_dict=True))
probabilities = keras.ops.softmax(model.predict(load("test").take(1), verbose=0))
print(keras.ops.convert_to_numpy(probabilities[:3]).round(3))
