import keras
import tensorflow as tf
from keras import layers, ops

NUM_USERS, NUM_MOVIES, EMBEDDING_SIZE = 100, 50, 8
MIN_RATING, MAX_RATING = 1.0, 5.0


def parse(batch):
    row = tf.io.parse_example(batch, {
        "user_id": tf.io.FixedLenFeature([], tf.int64),
        "movie_id": tf.io.FixedLenFeature([], tf.int64),
        "rating": tf.io.FixedLenFeature([1], tf.float32),
    })
    target = (row["rating"] - MIN_RATING) / (MAX_RATING - MIN_RATING)
    return tf.stack([row["user_id"], row["movie_id"]], axis=1), target


class RecommenderNet(keras.Model):
    def __init__(self, num_users, num_movies, embedding_size, **kwargs):
        super().__init__(**kwargs)
        settings = dict(embeddings_initializer="he_normal", embeddings_regularizer=keras.regularizers.l2(1e-6))
        self.user_embedding = layers.Embedding(num_users, embedding_size, **settings)
        self.user_bias = layers.Embedding(num_users, 1)
        self.movie_embedding = layers.Embedding(num_movies, embedding_size, **settings)
        self.movie_bias = layers.Embedding(num_movies, 1)

    def call(self, inputs):
        user, movie = inputs[:, 0], inputs[:, 1]
        dot = ops.sum(self.user_embedding(user) * self.movie_embedding(movie), axis=-1, keepdims=True)
        return ops.sigmoid(dot + self.user_bias(user) + self.movie_bias(movie))


train = tf.data.TFRecordDataset("data/ratings/train.tfrecord").shuffle(800).batch(64).map(parse)
val = tf.data.TFRecordDataset("data/ratings/val.tfrecord").batch(200).map(parse)

model = RecommenderNet(NUM_USERS, NUM_MOVIES, EMBEDDING_SIZE)
# ratings between 0 and 1 are soft labels, cross-entropy works for them too
model.compile(loss=keras.losses.BinaryCrossentropy(), optimizer=keras.optimizers.Adam(1e-2), metrics=["mae"])
model.fit(train, epochs=6, verbose=2, validation_data=val)
