# %% imports
import numpy as np
import tensorflow as tf
from PIL import Image

# %% data
NAMES = ["circle", "square", "cross", "stripes"]

def parse(ex):
    ex = tf.io.parse_single_example(ex, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                         "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
    return tf.ensure_shape(tf.cast(img, tf.float32) / 255., [32, 32, 3]), ex["image/class/label"]

train_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/train-*")).map(parse).cache().shuffle(320).batch(32)
# shuffled so that the contact sheet shows other pictures each time; the scores do not depend on the order
val_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/val-*")).map(parse).cache().shuffle(80).batch(16)

# %% model
model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dropout(0.25),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)

# %% look at one batch: pictures, truth and prediction come from the same iteration
images, labels = next(iter(val_ds))
guesses = model.predict(images, verbose=0).argmax(axis=-1)
for truth, guess in list(zip(labels.numpy(), guesses))[:8]:
    print(f"{NAMES[truth]:8s} -> {NAMES[guess]:8s} {'ok' if truth == guess else 'WRONG'}")
sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in np.reshape(images, (4, 4, 32, 32, 3))], axis=0)
picture = Image.fromarray((sheet * 255).round().astype(np.uint8))
print("contact sheet", picture.size)
