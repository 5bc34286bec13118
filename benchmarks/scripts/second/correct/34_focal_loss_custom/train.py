import numpy as np
import tensorflow as tf
from sklearn.metrics import average_precision_score
from tensorflow import keras


def load(path):
    feats, labels = [], []
    for ex in tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, {
            "x": tf.io.FixedLenFeature([10], tf.float32), "label": tf.io.FixedLenFeature([1], tf.int64)})):
        feats.append(ex["x"])
        labels.append(ex["label"])
    return np.array(feats), np.array(labels, np.float32)


@keras.utils.register_keras_serializable("fraud")
class SigmoidFocal(keras.losses.Loss):
    """-alpha_t * (1 - p_t)**gamma * log(p_t), computed from logits."""

    def __init__(self, alpha=0.75, gamma=2.0, name="sigmoid_focal", **kw):
        super().__init__(name=name, **kw)
        self.alpha, self.gamma = alpha, gamma

    def call(self, y_true, logits):
        y_true = tf.cast(y_true, logits.dtype)
        ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=y_true, logits=logits)
        p = tf.sigmoid(logits)
        p_t = y_true * p + (1 - y_true) * (1 - p)
        a_t = y_true * self.alpha + (1 - y_true) * (1 - self.alpha)
        return tf.reduce_mean(a_t * (1 - p_t) ** self.gamma * ce, axis=-1)

    def get_config(self):
        return {**super().get_config(), "alpha": self.alpha, "gamma": self.gamma}


x, y = load("data/fraud/train.tfrecord")
xv, yv = load("data/fraud/val.tfrecord")

net = keras.Sequential([keras.Input((10,)), keras.layers.Dense(24, activation="relu"), keras.layers.Dense(1)])
net.compile(keras.optimizers.Adam(1e-2), loss=SigmoidFocal(),
            metrics=[keras.metrics.AUC(from_logits=True, curve="PR", name="ap")])
# arrays: fit() shuffles all of them each epoch, which matters as the file is sorted
net.fit(x, y, batch_size=30, epochs=5, validation_data=(xv, yv), shuffle=True, verbose=2)
scores = tf.sigmoid(net.predict(xv, verbose=0)).numpy().ravel()
print("average precision", round(average_precision_score(yv.ravel(), scores), 3), "base rate", yv.mean())
