from tensorflow.keras.layers import Input, Embedding, Flatten, Dot, Dense
from tensorflow.keras.models import Model
from tensorflow.keras.optimizers import Adam
import tensorflow as tf

n_users, n_movies, n_latent = 100, 50, 8

def parse(r):
    f = tf.io.parse_single_example(r, {'user_id': tf.io.FixedLenFeature([1], tf.int64),
                                       'movie_id': tf.io.FixedLenFeature([1], tf.int64),
                                       'rating': tf.io.FixedLenFeature([1], tf.float32)})
    return (f['user_id'], f['movie_id']), f['rating']

train = tf.data.TFRecordDataset('data/ratings/train.tfrecord').map(parse).shuffle(800).batch(64)
test = tf.data.TFRecordDataset('data/ratings/val.tfrecord').map(parse).batch(64)

movie_input = Input(shape=[1], name='Item')
movie_vec = Flatten()(Embedding(n_movies, n_latent)(movie_input))
user_input = Input(shape=[1], name='User')
user_vec = Flatten()(Embedding(n_users, n_latent)(user_input))
prod = Dot(axes=1)([movie_vec, user_vec])
out = Dense(1)(prod)

model = Model([user_input, movie_input], out)
model.compile(optimizer=Adam(lr=0.005, decay=1e-4), loss='mean_squared_error')
model.fit(train, epochs=10, validation_data=test)
