import tensorflow as tf
from tensorflow import keras

USERS, MOVIES, DIM = 100, 50, 16


def parse(r):
    return tf.io.parse_single_example(r, {
        "user_id": tf.io.FixedLenFeature([], tf.int64),
        "movie_id": tf.io.FixedLenFeature([], tf.int64),
        "rating": tf.io.FixedLenFeature([], tf.float32)})


def liked(path):
    # only films the user liked are positives
    ds = tf.data.TFRecordDataset(path).map(parse).filter(lambda d: d["rating"] >= 4.0)
    return ds.map(lambda d: (d["user_id"], d["movie_id"])).cache()


train, test = liked("data/ratings/train.tfrecord"), liked("data/ratings/val.tfrecord")
n = sum(1 for _ in train)
counts = tf.math.bincount(tf.constant([m for _, m in train.as_numpy_iterator()], tf.int32), minlength=MOVIES)
log_q = tf.math.log(tf.cast(counts + 1, tf.float32) / (n + MOVIES))

user_tower = keras.layers.Embedding(USERS, DIM)
movie_tower = keras.layers.Embedding(MOVIES, DIM)
user_tower.build((None,))
movie_tower.build((None,))
movie_bias = tf.Variable(tf.zeros([MOVIES]))
variables = user_tower.trainable_variables + movie_tower.trainable_variables + [movie_bias]
opt = keras.optimizers.Adam(2e-2)
opt.build(variables)


def score(user, movie):
    return tf.matmul(user_tower(user), movie_tower(movie), transpose_b=True) + tf.gather(movie_bias, movie)[None, :]


@tf.function(reduce_retracing=True)
def step(user, movie):
    with tf.GradientTape() as tape:
        logits = score(user, movie)
        logits -= tf.gather(log_q, movie)[None, :]               # popular films turn up as negatives more often
        same = tf.equal(movie[:, None], movie[None, :])          # the same film twice in a batch is no negative
        off_diagonal = tf.logical_and(same, ~tf.eye(tf.size(user), dtype=tf.bool))
        logits = tf.where(off_diagonal, -1e9, logits)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(tf.size(user)), logits=logits))
    opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


def recall_at_10():
    hits, total = 0, 0
    for user, movie in test.batch(64):
        scores = score(user, tf.range(MOVIES))
        hits += int(tf.reduce_sum(tf.cast(tf.math.in_top_k(movie, scores, k=10), tf.int32)))
        total += int(tf.size(user))
    return hits / total


print(f"before: recall@10 {recall_at_10():.3f} (chance 0.200)")
for epoch in range(5):
    mean = keras.metrics.Mean()
    for user, movie in train.shuffle(n).batch(32, drop_remainder=True):
        mean.update_state(step(user, movie))
    print(f"epoch {epoch}: loss {float(mean.result()):.3f} recall@10 {recall_at_10():.3f}")
