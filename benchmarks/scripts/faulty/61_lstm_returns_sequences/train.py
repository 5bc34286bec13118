import tensorflow as tf
from tensorflow.keras.layers import LSTM, Dense, Input
from tensorflow.keras.models import Sequential

MAX_STEPS = 30


def _parse(proto):
    ctx, seq = tf.io.parse_single_sequence_example(
        proto,
        context_features={"label": tf.io.FixedLenFeature([], tf.int64)},
        sequence_features={"frames": tf.io.FixedLenSequenceFeature([6], tf.float32)},
    )
    return seq["frames"], ctx["label"]


train = tf.data.TFRecordDataset("data/gestures/train.tfrecord").map(_parse).shuffle(300)
train = train.padded_batch(25, padded_shapes=([MAX_STEPS, 6], []))
val = tf.data.TFRecordDataset("data/gestures/val.tfrecord").map(_parse).padded_batch(25, padded_shapes=([MAX_STEPS, 6], []))

model = Sequential()
model.add(Input((MAX_STEPS, 6)))
model.add(LSTM(32, return_sequences=True))
model.add(LSTM(16, return_sequences=True))
model.add(Dense(5, activation="softmax"))
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(train, epochs=5, validation_data=val)
