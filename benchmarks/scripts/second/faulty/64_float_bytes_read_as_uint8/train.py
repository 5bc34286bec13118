import glob

import keras

from reader import open_records
from write_records import rewrite

print(rewrite(sorted(glob.glob("data/digits/train-*.tfrecord")), "small_train.tfrecord"), "train")
print(rewrite(sorted(glob.glob("data/digits/test-*.tfrecord")), "small_test.tfrecord"), "test")

train = open_records("small_train.tfrecord", 50, shuffle=500)
test = open_records("small_test.tfrecord", 50)

model = keras.Sequential([
    keras.Input((14, 14, 1)),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=2)
print(model.evaluate(test, verbose=0))
