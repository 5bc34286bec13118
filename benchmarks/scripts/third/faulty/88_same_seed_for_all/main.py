import tensorflow as tf

from aug import augment

tf.keras.utils.set_random_seed(5)
SPEC = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def parse(r):
    e = tf.io.parse_single_example(r, SPEC)
    x = tf.ensure_shape(tf.io.decode_jpeg(e["image/encoded"], channels=3), [32, 32, 3])
    return tf.cast(x, tf.float32) / 255.0, e["image/class/label"]


def load(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/shapes/{split}-*"))).map(parse).cache()


train = load("train").shuffle(320).map(augment).batch(32).prefetch(1)
net = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 5, 2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, 2, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(4),
])
net.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"])
net.fit(train, validation_data=load("val").batch(80), epochs=6, verbose=2)
print("test", net.evaluate(load("test").batch(40), verbose=0))
