# data: sensors
import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
strategy = tf.distribute.MirroredStrategy()

def load(pattern, training):
    rows = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    rows = rows.shuffle(600) if training else rows
    rows = rows.batch(32).map(lambda batch: tf.io.parse_example(batch, SPEC), num_parallel_calls=tf.data.AUTOTUNE)
    return rows.map(lambda row: (row["x"], row["label"]), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(32, "relu"), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(5)]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(load("sensors/train*", True), validation_data=load("sensors/val*", False), epochs=3)
