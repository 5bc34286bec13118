import sys
from pathlib import Path

import tensorflow as tf
import yaml

from pipeline import load_split
from schedule import make_optimizer

config = yaml.safe_load((Path(__file__).parent / sys.argv[1]).read_text())
tf.keras.utils.set_random_seed(config["seed"])

train = load_split(config["data"], "fit", config["batch_size"])
val = load_split(config["data"], "val", config["batch_size"])
test = load_split(config["data"], "test", config["batch_size"])

model = tf.keras.Sequential([tf.keras.Input((28, 28, 1))])
for filters in config["model"]["filters"]:
    model.add(tf.keras.layers.Conv2D(filters, 3, strides=2, activation=config["model"]["activation"]))
model.add(tf.keras.layers.Flatten())
model.add(tf.keras.layers.Dense(10))

steps = config["data"]["fit_records"] // config["batch_size"]
model.compile(
    optimizer=make_optimizer(config["optimizer"], steps * config["epochs"]),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=config["epochs"], verbose=2)
print("test", model.evaluate(test, verbose=0, return_dict=True))
