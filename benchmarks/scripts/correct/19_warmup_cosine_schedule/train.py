import math

import keras
import tensorflow as tf
from keras import layers, ops


@keras.saving.register_keras_serializable()
class WarmUpCosine(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak, total_steps, warmup_steps):
        super().__init__()
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        progress = (step - self.warmup_steps) / float(self.total_steps - self.warmup_steps)
        cosine = 0.5 * self.peak * (1.0 + ops.cos(math.pi * ops.clip(progress, 0.0, 1.0)))
        warm = self.peak * (step + 1.0) / self.warmup_steps
        return ops.where(step < self.warmup_steps, warm, cosine)

    def get_config(self):
        return {"peak": self.peak, "total_steps": self.total_steps, "warmup_steps": self.warmup_steps}


BATCH_SIZE, EPOCHS = 16, 6

feature_spec = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def preprocess(serialized):
    example = tf.io.parse_single_example(serialized, feature_spec)
    image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
    image = tf.reshape(image, (32, 32, 3))
    return tf.cast(image, tf.float32) / 255.0, example["image/class/label"]


train_ds = (
    tf.data.Dataset.list_files("data/shapes/train-*")
    .interleave(tf.data.TFRecordDataset, cycle_length=tf.data.AUTOTUNE)
    .shuffle(320)
    .map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(BATCH_SIZE)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/shapes/val-*"))).map(preprocess).batch(BATCH_SIZE)

steps = int(train_ds.reduce(0, lambda n, _: n + 1)) * EPOCHS
schedule = WarmUpCosine(peak=3e-3, total_steps=steps, warmup_steps=max(1, steps // 10))

patches = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(32, kernel_size=4, strides=4),
        layers.Reshape((64, 32)),
        layers.LayerNormalization(),
        layers.Conv1D(32, 9, padding="same", activation="gelu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(4),
    ]
)
patches.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=schedule, weight_decay=1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
patches.fit(train_ds, validation_data=val_ds, epochs=EPOCHS, verbose=2)
