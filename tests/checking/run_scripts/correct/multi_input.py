# data: sensors
import tensorflow as tf
from tensorflow.keras.layers import Input, Dense, Concatenate
from tensorflow.keras.models import Model
from tensorflow.keras.utils import to_categorical

class Feeder:
    def __init__(self, pattern, bs):
        self.pattern, self.bs = pattern, bs
    def _p(self, r):
        d = tf.io.parse_single_example(r, {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64), "target": tf.io.FixedLenFeature([], tf.float32, default_value=0.0)})
        return ({"left": d["x"][:8], "right": d["x"][8:]}, {"cls": d["label"], "reg": d["target"]})
    def make(self, training):
        ds = tf.data.Dataset.list_files(self.pattern).flat_map(tf.data.TFRecordDataset).map(self._p)
        if training:
            ds = ds.shuffle(600)
        return ds.batch(self.bs)

a, b = Input((8,), name="left"), Input((8,), name="right")
h = Concatenate()([Dense(16, activation="relu")(a), Dense(16, activation="relu")(b)])
m = Model([a, b], {"cls": Dense(5, activation="softmax", name="cls")(h), "reg": Dense(1, name="reg")(h)})
m.compile(optimizer="nadam", loss={"cls": "sparse_categorical_crossentropy", "reg": "mse"}, loss_weights={"cls": 1.0, "reg": 0.1}, metrics={"cls": ["accuracy"]})
m.fit(Feeder("d/train*.tfrecord", 32).make(True), validation_data=Feeder("d/val*.tfrecord", 32).make(False), epochs=4)
