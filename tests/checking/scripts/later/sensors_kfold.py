"""Written after the rules: folds by shard, weights for classes, steps for an endless dataset."""

import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
BATCH, RECORDS = 40, 2000


def parse(batch):
    parsed = tf.io.parse_example(batch, SPEC)
    return parsed["x"], tf.one_hot(parsed["label"], 5)


def reader(path, repeat):
    ds = tf.data.TFRecordDataset(path)
    if repeat:
        ds = ds.shuffle(RECORDS).repeat()
    return ds.batch(BATCH).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)


def new_model():
    inputs = tf.keras.Input(shape=(64,))
    outputs = tf.keras.layers.Dense(5)(tf.keras.layers.LayerNormalization()(inputs))
    model = tf.keras.Model(inputs=inputs, outputs=outputs)
    loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)
    return model


for fold in range(2):
    model = new_model()
    model.fit(
        reader("sensors/train-00000-of-00001.tfrecord", repeat=True),
        steps_per_epoch=RECORDS // BATCH,
        validation_data=reader("sensors/val-00000-of-00001.tfrecord", repeat=False),
        class_weight={0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0},
        epochs=1,
    )
