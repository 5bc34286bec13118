import collections

import numpy as np
import tensorflow as tf
from sklearn.model_selection import GroupShuffleSplit

waves, labels, speakers = [], [], []
for path in ("data/audio/train.tfrecord", "data/audio/val.tfrecord"):
    for rec in tf.data.TFRecordDataset(path).as_numpy_iterator():
        f = tf.train.Example.FromString(rec).features.feature
        waves.append(f["audio"].float_list.value)
        labels.append(f["label"].int64_list.value[0])
        speakers.append(f["speaker"].bytes_list.value[0])
waves, labels, speakers = np.array(waves, np.float32)[..., None], np.array(labels), np.array(speakers)

# the files share speakers, so both are pooled and divided anew by speaker
fit, held = next(GroupShuffleSplit(n_splits=1, test_size=0.25, random_state=0).split(waves, groups=speakers))
assert not set(speakers[fit]) & set(speakers[held])
print(len(fit), "for training,", len(held), "held out;", collections.Counter(labels[held].tolist()))

model = tf.keras.Sequential([
    tf.keras.Input((400, 1)),
    tf.keras.layers.GaussianNoise(0.05),
    tf.keras.layers.Conv1D(16, 32, strides=8, activation="relu"),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(waves[fit], labels[fit], batch_size=30, epochs=5, validation_data=(waves[held], labels[held]), verbose=2)
