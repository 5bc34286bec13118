# Matrix factorization in Keras, with the rating squeezed into 1..5 by a scaled sigmoid
import tensorflow as tf
from tensorflow.keras import layers

USERS, MOVIES = 100, 50  # ids start at zero, so exactly this many rows are needed


def parse(record):
    row = tf.io.parse_single_example(record, {
        "user_id": tf.io.FixedLenFeature([], tf.int64),
        "movie_id": tf.io.FixedLenFeature([], tf.int64),
        "rating": tf.io.FixedLenFeature([], tf.float32),
    })
    return {"user": row["user_id"], "movie": row["movie_id"]}, row["rating"]


train = tf.data.TFRecordDataset("data/ratings/train.tfrecord").map(parse).shuffle(800).batch(32)
val = tf.data.TFRecordDataset("data/ratings/val.tfrecord").map(parse).batch(200)

user = tf.keras.Input((), dtype="int64", name="user")
movie = tf.keras.Input((), dtype="int64", name="movie")
u = layers.Embedding(USERS, 6, embeddings_regularizer=tf.keras.regularizers.L2(1e-4))(user)
m = layers.Embedding(MOVIES, 6, embeddings_regularizer=tf.keras.regularizers.L2(1e-4))(movie)
bu = layers.Embedding(USERS, 1)(user)
bm = layers.Embedding(MOVIES, 1)(movie)
score = layers.Add()([layers.Dot(axes=1)([u, m]), bu, bm])
rating = layers.Rescaling(4.0, offset=1.0)(layers.Activation("sigmoid")(score))
model = tf.keras.Model({"user": user, "movie": movie}, rating)

model.compile(optimizer=tf.keras.optimizers.Adam(0.02), loss="mse", metrics=[tf.keras.metrics.RootMeanSquaredError()])
model.fit(train, validation_data=val, epochs=6, verbose=2)
