import os

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
PER_REPLICA = 32
GLOBAL_BATCH = PER_REPLICA * strategy.num_replicas_in_sync
BASE_LR = 2e-3
print("replicas:", strategy.num_replicas_in_sync)

options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA


def parse(proto):
    d = tf.io.parse_single_example(
        proto,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.io.decode_jpeg(d["image/encoded"], channels=3)
    return tf.ensure_shape(tf.cast(image, tf.float32) / 255.0, [32, 32, 3]), d["image/class/label"]


def get_dataset(split, training):
    pattern = os.path.join("data", "shapes", f"{split}-?????-of-?????.tfrecord")
    ds = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = ds.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(1024)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(GLOBAL_BATCH).prefetch(tf.data.AUTOTUNE).with_options(options)


with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((32, 32, 3)),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(4),
        ]
    )
    model.compile(
        # linear scaling rule
        optimizer=tf.keras.optimizers.Adam(BASE_LR * strategy.num_replicas_in_sync),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

model.fit(get_dataset("train", True), validation_data=get_dataset("val", False), epochs=5, verbose=2)
print(model.evaluate(get_dataset("test", False), verbose=0, return_dict=True))
