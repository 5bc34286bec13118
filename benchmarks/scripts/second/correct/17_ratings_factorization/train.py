import tensorflow as tf
from tensorflow.keras import Model, layers, regularizers

N_USERS, N_MOVIES, DIM = 100, 50, 4


class MatrixFactorization(Model):
    def __init__(self, global_mean, **kw):
        super().__init__(**kw)
        reg = regularizers.L2(1e-5)
        self.user = layers.Embedding(N_USERS, DIM, embeddings_regularizer=reg)
        self.movie = layers.Embedding(N_MOVIES, DIM, embeddings_regularizer=reg)
        self.user_bias = layers.Embedding(N_USERS, 1, embeddings_initializer="zeros")
        self.movie_bias = layers.Embedding(N_MOVIES, 1, embeddings_initializer="zeros")
        self.global_mean = global_mean

    def call(self, inputs):
        u, m = inputs["user_id"], inputs["movie_id"]
        dot = tf.reduce_sum(self.user(u) * self.movie(m), axis=-1, keepdims=True)
        return self.global_mean + dot + self.user_bias(u) + self.movie_bias(m)


def parse(batch):
    f = tf.io.parse_example(batch, {
        "user_id": tf.io.FixedLenFeature([], tf.int64),
        "movie_id": tf.io.FixedLenFeature([], tf.int64),
        "rating": tf.io.FixedLenFeature([], tf.float32),
    })
    return {"user_id": f["user_id"], "movie_id": f["movie_id"]}, f["rating"][:, None]


train = tf.data.TFRecordDataset("data/ratings/train.tfrecord").shuffle(800).batch(32).map(parse).prefetch(2)
test = tf.data.TFRecordDataset("data/ratings/val.tfrecord").batch(100).map(parse)

mean = float(tf.reduce_mean(tf.concat([y for _, y in train], 0)))
print("mean rating", round(mean, 3))

model = MatrixFactorization(mean)
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-2),
    loss="mean_squared_error",
    metrics=[tf.keras.metrics.RootMeanSquaredError(name="rmse")],
)
model.fit(train, validation_data=test, epochs=4, verbose=2)
