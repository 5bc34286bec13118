import tensorflow as tf

PATH = "data/shapes_sorted"
BS = 32

def parse(r):
    d = tf.io.parse_single_example(r, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.decode_jpeg(d["image"], channels=3)
    return tf.image.resize(img, (32, 32)) / 255., d["label"]

def load(name):
    return tf.data.TFRecordDataset(f"{PATH}/{name}.tfrecord").map(parse, num_parallel_calls=tf.data.AUTOTUNE)

ds_train = load("train").cache().batch(BS).shuffle(1000).prefetch(tf.data.AUTOTUNE)
ds_val = load("val").batch(BS).prefetch(tf.data.AUTOTUNE)

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Input(shape=(32, 32, 3)))
model.add(tf.keras.layers.Conv2D(16, (3, 3), activation="relu"))
model.add(tf.keras.layers.MaxPooling2D((2, 2)))
model.add(tf.keras.layers.Conv2D(32, (3, 3), activation="relu"))
model.add(tf.keras.layers.MaxPooling2D((2, 2)))
model.add(tf.keras.layers.Flatten())
model.add(tf.keras.layers.Dense(32, activation="relu"))
model.add(tf.keras.layers.Dense(4))

model.compile(optimizer="adam",
              loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])

history = model.fit(ds_train, epochs=4, validation_data=ds_val)
