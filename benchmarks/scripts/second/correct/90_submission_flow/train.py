import pandas as pd
import tensorflow as tf
from tensorflow.keras import layers

INPUT = "/kaggle/input/segment-digits"
tf.keras.utils.set_random_seed(2024)


def parse_train(ex):
    ex = tf.io.parse_single_example(ex, {"image_raw": tf.io.FixedLenFeature([], tf.string),
                                         "label": tf.io.FixedLenFeature([], tf.int64)})
    return decode(ex["image_raw"]), ex["label"]


def parse_test(ex):
    # the test records of a competition have no usable label
    return decode(tf.io.parse_single_example(ex, {"image_raw": tf.io.FixedLenFeature([], tf.string)})["image_raw"])


def decode(raw):
    img = tf.reshape(tf.io.decode_raw(raw, tf.uint8), [28, 28, 1])
    return tf.cast(img, tf.float32) / 255.


train_files = sorted(tf.io.gfile.glob(f"{INPUT}/train-*.tfrecord"))
test_files = sorted(tf.io.gfile.glob(f"{INPUT}/test-*.tfrecord"))

# one shard in two is the hold-out; records are spread over the shards at random
fit_ds = tf.data.TFRecordDataset(train_files[:1]).map(parse_train).cache().shuffle(250).batch(25).prefetch(2)
hold_ds = tf.data.TFRecordDataset(train_files[1:]).map(parse_train).batch(50)
test_ds = tf.data.TFRecordDataset(test_files).map(parse_test).batch(50)

model = tf.keras.Sequential([
    layers.Input((28, 28, 1)),
    layers.RandomTranslation(0.07, 0.07, fill_mode="constant"),
    layers.Conv2D(16, 4, strides=2, activation="relu"),
    layers.Conv2D(32, 4, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(10, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(fit_ds, validation_data=hold_ds, epochs=8, verbose=2)

labels = model.predict(test_ds, verbose=0).argmax(axis=1)
submission = pd.DataFrame({"ImageId": range(1, len(labels) + 1), "Label": labels})
print(submission.head(), len(submission))
