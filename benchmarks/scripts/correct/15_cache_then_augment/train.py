"""Stateless augmentation: seeds come from a counter dataset, decoded images from the cache."""
import tensorflow as tf

IMG, BATCH = 32, 32
AUTOTUNE = tf.data.AUTOTUNE


def parse_and_decode(record):
    parsed = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(parsed["image/encoded"], channels=3)
    return tf.image.convert_image_dtype(tf.ensure_shape(image, [IMG, IMG, 3]), tf.float32), parsed["image/class/label"]


def augment(image_label, seed):
    image, label = image_label
    image = tf.image.resize_with_crop_or_pad(image, IMG + 4, IMG + 4)
    seeds = tf.random.split(seed, num=3)
    image = tf.image.stateless_random_crop(image, [IMG, IMG, 3], seed=seeds[0])
    image = tf.image.stateless_random_brightness(image, 0.1, seed=seeds[1])
    image = tf.image.stateless_random_flip_left_right(image, seed=seeds[2])
    return tf.clip_by_value(image, 0.0, 1.0), label


def main():
    decoded = tf.data.TFRecordDataset(tf.data.Dataset.list_files("data/shapes/train-*.tfrecord"))
    decoded = decoded.map(parse_and_decode, AUTOTUNE).cache().shuffle(400)
    seeds = tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).batch(2, drop_remainder=True)
    seeds = seeds.map(lambda pair: tf.cast(pair, tf.int32))
    train = tf.data.Dataset.zip((decoded, seeds)).map(augment, AUTOTUNE).batch(BATCH).prefetch(AUTOTUNE)

    val_files = sorted(tf.io.gfile.glob("data/shapes/val-*.tfrecord"))
    val = tf.data.TFRecordDataset(val_files).map(parse_and_decode, AUTOTUNE).batch(BATCH).cache()

    inputs = tf.keras.Input((IMG, IMG, 3))
    x = tf.keras.layers.Conv2D(16, 3, activation="relu")(inputs)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    outputs = tf.keras.layers.Dense(4)(x)
    model = tf.keras.Model(inputs, outputs)
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=6, verbose=2)


if __name__ == "__main__":
    main()
