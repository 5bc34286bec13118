import tensorflow as tf
from tensorflow import keras

P, K = 4, 8            # every batch: 4 classes with 8 pictures each


def parse(r):
    f = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                       "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.cast(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32) / 255.0
    return tf.ensure_shape(im, [32, 32, 3]), f["image/class/label"]


base = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/shapes/train-*"))).map(parse).cache()
per_class = [base.filter(lambda _, y, c=c: y == c).shuffle(80).repeat().batch(K) for c in range(P)]
train = tf.data.Dataset.choose_from_datasets(per_class, tf.data.Dataset.range(P).repeat())
train = train.unbatch().batch(P * K).prefetch(1)
gallery = base.batch(64)
queries = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/shapes/val-*"))).map(parse).batch(64)


def batch_hard(labels, emb, margin=0.3):
    emb = tf.math.l2_normalize(emb, axis=1)
    dist = tf.sqrt(tf.maximum(2.0 - 2.0 * tf.matmul(emb, emb, transpose_b=True), 1e-12))
    labels = tf.reshape(labels, [-1])
    same = tf.equal(labels[:, None], labels[None, :])
    hardest_positive = tf.reduce_max(tf.where(same, dist, 0.0), axis=1)
    hardest_negative = tf.reduce_min(tf.where(same, 10.0, dist), axis=1)
    return tf.nn.softplus((hardest_positive - hardest_negative + margin) * 4.0)


model = keras.Sequential([
    keras.Input((32, 32, 3)),
    keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(24),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=batch_hard)
model.fit(train, steps_per_epoch=320 // (P * K), epochs=5, verbose=2)


def embed(ds):
    e = tf.math.l2_normalize(model.predict(ds.map(lambda im, y: im), verbose=0), axis=1)
    return e, tf.concat([y for _, y in ds], axis=0)


(g, gy), (q, qy) = embed(gallery), embed(queries)
nearest = tf.gather(gy, tf.argmax(tf.matmul(q, g, transpose_b=True), axis=1))
print("nearest neighbour accuracy on val:", float(tf.reduce_mean(tf.cast(nearest == qy, tf.float32))))
