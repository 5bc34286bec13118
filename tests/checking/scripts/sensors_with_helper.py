"""The pipeline's parts are in a module beside this one."""

import keras
import sensors_parts
from sensors_parts import finish, open_records

train = finish(open_records("train").shuffle(2000), 40)
val = finish(open_records("val"), batch_size=40)
test = sensors_parts.finish(sensors_parts.open_records("test"), 40)

model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(5, activation="softmax")]
)
model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2)
print(model.evaluate(test, return_dict=True))
