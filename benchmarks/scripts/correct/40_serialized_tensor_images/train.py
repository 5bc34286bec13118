import tensorflow as tf


def parse_fn(example):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(example, features)
    # the image was written with tf.io.serialize_tensor, so it knows its own shape, but the graph does not
    image = tf.io.parse_tensor(parsed["image"], out_type=tf.uint8)
    image = tf.ensure_shape(image, [24, 24, 3])
    return tf.cast(image, tf.float32), parsed["label"]


train_ds = tf.data.TFRecordDataset(["data/tensors/train.tfrecord"]).map(parse_fn)
val_ds = tf.data.TFRecordDataset(["data/tensors/val.tfrecord"]).map(parse_fn).batch(60)

# mean and variance per channel, from the training images only
scale = tf.keras.layers.Normalization(axis=-1)
scale.adapt(train_ds.map(lambda image, _: image).batch(50))

model = tf.keras.Sequential([
    tf.keras.Input((24, 24, 3)),
    scale,
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds.cache().shuffle(300).batch(30), epochs=8, validation_data=val_ds, verbose=2)
