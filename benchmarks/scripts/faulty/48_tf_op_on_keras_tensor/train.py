import tensorflow as tf
from tensorflow.keras import layers, Model

def parse(s):
    ex = tf.io.parse_single_example(s, {
        "audio": tf.io.FixedLenFeature([400], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return ex["audio"], ex["label"]

train_ds = tf.data.TFRecordDataset("data/audio/train.tfrecord").map(parse).cache().shuffle(300).batch(32)
val_ds = tf.data.TFRecordDataset("data/audio/val.tfrecord").map(parse).batch(32)

audio = layers.Input(shape=(400,), name="audio")
spec = tf.abs(tf.signal.stft(audio, frame_length=64, frame_step=32))
x = layers.Reshape((11, 33, 1))(spec)
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.GlobalMaxPooling2D()(x)
out = layers.Dense(4, activation="softmax")(x)

model = Model(audio, out)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=8)
