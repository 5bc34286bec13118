import tensorflow as tf

IMAGE_SIZE = 48

def load_image(record):
    record = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.decode_image(record["image"], channels=3)
    img = tf.image.resize(img, (IMAGE_SIZE, IMAGE_SIZE))
    img = img / 255.0
    return img, record["label"]

ds_train = tf.data.TFRecordDataset("data/sizes/train.tfrecord")
ds_train = ds_train.map(load_image, num_parallel_calls=tf.data.AUTOTUNE)
ds_train = ds_train.shuffle(200).batch(16).prefetch(tf.data.AUTOTUNE)
ds_val = tf.data.TFRecordDataset("data/sizes/val.tfrecord").map(load_image).batch(16)

model = tf.keras.Sequential([
    tf.keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(ds_train, validation_data=ds_val, epochs=5)
