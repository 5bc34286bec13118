import keras
import tensorflow as tf

label_lookup = keras.layers.StringLookup(vocabulary=["bird", "cat", "dog"], num_oov_indices=0)


@tf.autograph.experimental.do_not_convert
def parse(rec):
    e = tf.io.parse_single_example(rec, dict(image=tf.io.FixedLenFeature([], tf.string),
                                             label=tf.io.FixedLenFeature([], tf.string)))
    img = tf.io.decode_png(e["image"], channels=3)
    img.set_shape([48, 48, 3])
    return tf.cast(img, tf.float32) / 255.0, label_lookup(e["label"])


def dataset(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/animals/{split}-*"))).map(parse)


train = dataset("train").cache().shuffle(240, seed=5).batch(24).prefetch(2)
val = dataset("val").batch(30)

model = keras.Sequential(name="animals", layers=[
    keras.Input((48, 48, 3)),
    keras.layers.Conv2D(16, 5, strides=3, activation="relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy",
              metrics=["sparse_categorical_accuracy"])
model.fit(train, validation_data=val, epochs=5, verbose=2)

names = keras.layers.StringLookup(vocabulary=label_lookup.get_vocabulary(), num_oov_indices=0, invert=True)
images, labels = next(iter(val))
predicted = names(model.predict(images[:5], verbose=0).argmax(-1))
print([w.decode() for w in predicted.numpy()], [w.decode() for w in names(labels[:5]).numpy()])
