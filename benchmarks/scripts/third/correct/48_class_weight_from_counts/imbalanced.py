import numpy as np
import tensorflow as tf

spec = {"image": tf.io.FixedLenFeature([], tf.string), "target": tf.io.FixedLenFeature([], tf.int64)}


def parse(r):
    e = tf.io.parse_single_example(r, spec)
    img = tf.io.decode_png(e["image"], channels=3)
    img = tf.reshape(img, [32, 32, 3])
    return tf.cast(img, tf.float32) / 255.0, e["target"]


train = tf.data.TFRecordDataset("data/cats_dogs/train.tfrecord").map(parse).cache()
val = tf.data.TFRecordDataset("data/cats_dogs/val.tfrecord").map(parse).batch(80)

counts = np.bincount([int(y) for _, y in train])
total = counts.sum()
class_weight = {k: total / (len(counts) * n) for k, n in enumerate(counts)}
print(counts, class_weight)

# start from the base rate, so that the first steps are not spent on learning the bias
# (with class weights the effective classes are balanced, hence zero)
model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid", bias_initializer="zeros"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(2e-3), loss="binary_crossentropy",
              metrics=[tf.keras.metrics.AUC(name="roc"), tf.keras.metrics.AUC(curve="PR", name="pr")])
model.fit(train.shuffle(300).batch(30), epochs=6, class_weight=class_weight, verbose=2)

# choose the cut on the training scores, then count on the validation data
scores = model.predict(train.batch(100), verbose=0)[:, 0]
y = np.array([int(t) for _, t in train])
cut = max(np.linspace(0.1, 0.9, 33), key=lambda c: ((scores > c) & (y == 1)).sum() * 2 / max(1, (scores > c).sum() + (y == 1).sum()))
for x, t in val:
    p = model.predict(x, verbose=0)[:, 0] > cut
    t = t.numpy().astype(bool)
    print("cut %.2f precision %.2f recall %.2f" % (cut, (p & t).sum() / max(1, p.sum()), (p & t).sum() / t.sum()))
