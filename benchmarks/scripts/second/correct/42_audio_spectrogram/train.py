import pathlib

import tensorflow as tf

data_dir = pathlib.Path("data/audio")


def get_spectrogram(waveform):
    spectrogram = tf.signal.stft(waveform, frame_length=64, frame_step=16)
    spectrogram = tf.abs(spectrogram)
    return spectrogram[..., tf.newaxis]


def to_pair(serialized):
    ex = tf.io.parse_single_example(
        serialized,
        {"audio": tf.io.FixedLenFeature([400], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    return get_spectrogram(ex["audio"]), ex["label"]


train_ds = tf.data.TFRecordDataset(str(data_dir / "train.tfrecord")).map(to_pair, tf.data.AUTOTUNE).cache()
val_ds = tf.data.TFRecordDataset(str(data_dir / "val.tfrecord")).map(to_pair, tf.data.AUTOTUNE).cache()

spec_shape = train_ds.element_spec[0].shape
print("spectrogram shape", spec_shape)

norm_layer = tf.keras.layers.Normalization(axis=-1)
norm_layer.adapt(train_ds.map(lambda spec, label: spec).batch(50))

model = tf.keras.Sequential([
    tf.keras.layers.Input(shape=spec_shape),
    norm_layer,
    tf.keras.layers.Conv2D(8, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(4),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    train_ds.shuffle(300).batch(30).prefetch(tf.data.AUTOTUNE),
    validation_data=val_ds.batch(40),
    epochs=4,
    callbacks=[tf.keras.callbacks.EarlyStopping(verbose=1, patience=2)],
    verbose=2,
)
