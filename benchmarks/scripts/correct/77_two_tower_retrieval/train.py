import tensorflow as tf

DIM = 16


def parse(record):
    return tf.io.parse_single_example(record, {
        'user_id': tf.io.FixedLenFeature([], tf.int64),
        'movie_id': tf.io.FixedLenFeature([], tf.int64),
        'rating': tf.io.FixedLenFeature([], tf.float32),
    })


def liked(row):
    return row['rating'] >= 4.0


train = (tf.data.TFRecordDataset('data/ratings/train.tfrecord').map(parse).filter(liked).cache()
         .shuffle(800).batch(40, drop_remainder=True))
test = tf.data.TFRecordDataset('data/ratings/val.tfrecord').map(parse).filter(liked).batch(256)


class TwoTower(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.user = tf.keras.Sequential([tf.keras.layers.Embedding(100, DIM), tf.keras.layers.Dense(DIM)])
        self.movie = tf.keras.Sequential([tf.keras.layers.Embedding(50, DIM), tf.keras.layers.Dense(DIM)])
        self.mean_loss = tf.keras.metrics.Mean(name='loss')

    @property
    def metrics(self):
        return [self.mean_loss]

    def call(self, row):
        return self.user(row['user_id']), self.movie(row['movie_id'])

    def in_batch_loss(self, row):
        users, movies = self(row)
        scores = tf.matmul(users, movies, transpose_b=True)
        # the same movie elsewhere in the batch is not a negative
        same = tf.equal(row['movie_id'][:, None], row['movie_id'][None, :])
        diagonal = tf.eye(tf.shape(scores)[0], dtype=tf.bool)
        scores = tf.where(same & ~diagonal, -1e9, scores)
        labels = tf.range(tf.shape(scores)[0])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))

    def train_step(self, row):
        with tf.GradientTape() as tape:
            loss = self.in_batch_loss(row)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        self.mean_loss.update_state(loss)
        return {'loss': self.mean_loss.result()}


model = TwoTower()
model.compile(optimizer=tf.keras.optimizers.Adam(0.02))
model.fit(train, epochs=8, verbose=2)

catalogue = model.movie(tf.range(50))
hits, total = 0, 0
for row in test:
    top = tf.math.top_k(tf.matmul(model.user(row['user_id']), catalogue, transpose_b=True), k=10).indices
    hits += int(tf.reduce_sum(tf.cast(tf.equal(top, tf.cast(row['movie_id'], tf.int32)[:, None]), tf.int32)))
    total += int(tf.shape(top)[0])
print('recall@10', hits / total)
