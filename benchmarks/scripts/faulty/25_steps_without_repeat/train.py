import tensorflow as tf
from tensorflow.keras.layers import LSTM, Dense, Embedding
from tensorflow.keras.models import Sequential

VOCAB_SIZE = 2000
NUM_TRAIN = 400
NUM_VAL = 100
BATCH_SIZE = 20
EPOCHS = 3


def parse(serialized):
    ex = tf.io.parse_single_example(serialized, {
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return ex["tokens"], ex["label"]


def load(split):
    files = tf.io.gfile.glob("data/tokens/" + split + "*.tfrecord")
    return tf.data.TFRecordDataset(files).map(parse)


train_data = load("train").shuffle(NUM_TRAIN).padded_batch(BATCH_SIZE)
val_data = load("val").padded_batch(BATCH_SIZE)

model = Sequential()
model.add(Embedding(VOCAB_SIZE, 16, mask_zero=True))
model.add(LSTM(16))
model.add(Dense(4, activation="softmax"))
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])

model.fit(
    train_data,
    epochs=EPOCHS,
    steps_per_epoch=NUM_TRAIN,
    validation_data=val_data,
)
