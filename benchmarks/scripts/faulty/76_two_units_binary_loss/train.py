import tensorflow as tf


class CFG:
    train = ["data/cats_dogs/train.tfrecord"]
    valid = ["data/cats_dogs/val.tfrecord"]
    img_size = 32
    batch_size = 30
    epochs = 4
    lr = 1e-3
    target_size = 2


def decode(rec):
    ex = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "target": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_png(ex["image"], channels=3)
    img = tf.image.resize(tf.cast(img, tf.float32) / 255.0, [CFG.img_size] * 2)
    return img, ex["target"]


def build_ds(files, train=False):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2).map(decode, num_parallel_calls=2)
    if train:
        ds = ds.shuffle(300)
    return ds.batch(CFG.batch_size).prefetch(1)


def build_model():
    inp = tf.keras.layers.Input((CFG.img_size, CFG.img_size, 3))
    x = tf.keras.layers.Conv2D(16, 3, activation="relu")(inp)
    x = tf.keras.layers.MaxPooling2D()(x)
    x = tf.keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    out = tf.keras.layers.Dense(CFG.target_size, activation="sigmoid")(x)
    model = tf.keras.Model(inp, out)
    model.compile(optimizer=tf.keras.optimizers.Adam(CFG.lr), loss="binary_crossentropy", metrics=["accuracy"])
    return model


model = build_model()
model.fit(build_ds(CFG.train, True), epochs=CFG.epochs, validation_data=build_ds(CFG.valid),
          class_weight={0: 0.55, 1: 5.0})
