"""Ratings 1..5 as four questions: is it more than 1, 2, 3, 4?"""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

LEVELS = 5


def parse(r):
    d = tf.io.parse_single_example(r, {"user_id": tf.io.FixedLenFeature([], tf.int64),
                                       "movie_id": tf.io.FixedLenFeature([], tf.int64),
                                       "rating": tf.io.FixedLenFeature([], tf.float32)})
    above = tf.cast(d["rating"] > tf.range(1.0, LEVELS), tf.float32)        # 3 stars -> [1, 1, 0, 0]
    return (d["user_id"], d["movie_id"]), above


def build():
    user, movie = keras.Input((), dtype="int64"), keras.Input((), dtype="int64")
    u = layers.Embedding(100, 4, embeddings_regularizer=keras.regularizers.L2(1e-4))(user)
    m = layers.Embedding(50, 4, embeddings_regularizer=keras.regularizers.L2(1e-4))(movie)
    taste = layers.Dot(axes=1)([u, m])
    quality = layers.Embedding(50, 1, embeddings_initializer="zeros")(movie)
    score = layers.Add()([taste, quality])
    return keras.Model([user, movie], Thresholds(LEVELS - 1)(score))


class Thresholds(layers.Layer):
    """logit_k = score - t_k with t_1 < t_2 < ..."""

    def __init__(self, count):
        super().__init__()
        self.first = self.add_weight(shape=(1,), initializer=keras.initializers.Constant(-2.0), name="first")
        self.steps = self.add_weight(shape=(count - 1,), initializer="ones", name="steps")

    def call(self, score):
        t = tf.concat([self.first, self.first + tf.cumsum(tf.nn.softplus(self.steps))], axis=0)
        return score - t


def star_mae(y_true, logits):
    guess = tf.reduce_sum(tf.cast(logits > 0, tf.float32), axis=-1)
    return tf.abs(guess - tf.reduce_sum(y_true, axis=-1))


train = tf.data.TFRecordDataset("data/ratings/train.tfrecord").map(parse).cache().shuffle(800).batch(32).prefetch(1)
val = tf.data.TFRecordDataset("data/ratings/val.tfrecord").map(parse).batch(100)
model = build()
model.compile(keras.optimizers.Adam(2e-2), keras.losses.BinaryCrossentropy(from_logits=True), metrics=[star_mae])
model.fit(train, validation_data=val, epochs=6, verbose=2)
