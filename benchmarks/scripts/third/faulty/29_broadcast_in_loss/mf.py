"""Matrix factorisation with biases, plain loop."""
import numpy as np
import tensorflow as tf

N_USERS, N_ITEMS, DIM = 100, 50, 4
SPEC = {'user_id': tf.io.FixedLenFeature([], tf.int64),
        'movie_id': tf.io.FixedLenFeature([], tf.int64),
        'rating': tf.io.FixedLenFeature([], tf.float32)}


def load(split):
    ds = tf.data.TFRecordDataset(f'data/ratings/{split}.tfrecord')
    return ds.map(lambda r: tf.io.parse_single_example(r, SPEC))


class MF(tf.keras.Model):
    def __init__(self):
        super().__init__()
        reg = tf.keras.regularizers.L2(1e-5)
        self.u = tf.keras.layers.Embedding(N_USERS, DIM, embeddings_regularizer=reg)
        self.i = tf.keras.layers.Embedding(N_ITEMS, DIM, embeddings_regularizer=reg)
        self.out = tf.keras.layers.Dense(1, bias_initializer=tf.keras.initializers.Constant(3.0))

    def call(self, b):
        u, i = self.u(b['user_id']), self.i(b['movie_id'])
        return self.out(tf.concat([u * i, u, i], -1))


model = MF()
opt = tf.keras.optimizers.Adam(1e-2)
train, val = load('train').shuffle(800).batch(64), load('val').batch(200)


@tf.function
def train_step(b):
    with tf.GradientTape() as tape:
        pred = model(b, training=True)
        loss = tf.reduce_mean(tf.square(b['rating'] - pred)) + tf.add_n(model.losses)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(12):
    losses = [float(train_step(b)) for b in train]
    print(epoch, 'train', np.mean(losses).round(4))

errors = []
for b in val:
    errors.append(b['rating'].numpy() - model(b).numpy()[:, 0])
print('val rmse', np.sqrt(np.mean(np.concatenate(errors) ** 2)).round(4))
