import tensorflow as tf

BATCH = 40


def parse(r):
    d = tf.io.parse_single_example(r, {
        "x": tf.io.FixedLenFeature([10], tf.float32),
        "amount": tf.io.FixedLenFeature([], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return tf.concat([d["x"], [tf.math.log(d["amount"])]], axis=0), d["label"]


full = tf.data.TFRecordDataset("data/fraud/train.tfrecord").map(parse).cache()
# zeros first in the file; each class gets its own endless shuffled stream and the two are mixed evenly
negative = full.filter(lambda x, y: y == 0).shuffle(600).repeat()
positive = full.filter(lambda x, y: y == 1).shuffle(600).repeat()
balanced = tf.data.Dataset.sample_from_datasets([negative, positive], weights=[0.5, 0.5]).batch(BATCH).prefetch(2)

# the validation data keeps the real share of fraud
val = tf.data.TFRecordDataset("data/fraud/val.tfrecord").map(parse).batch(100)

norm = tf.keras.layers.Normalization()
norm.adapt(full.map(lambda x, y: x).batch(100))

model = tf.keras.Sequential([
    tf.keras.Input((11,)),
    norm,
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dropout(0.3),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=[
    tf.keras.metrics.AUC(curve="PR", name="pr_auc"), tf.keras.metrics.Recall(name="recall")])

# 570 negatives: with half of each batch negative, an epoch is one pass over them
model.fit(balanced, steps_per_epoch=570 // (BATCH // 2), epochs=4, validation_data=val, verbose=2)
