import tensorflow as tf

tf.random.set_seed(0)


def make(split, bs, train):
    spec = {'x': tf.io.FixedLenFeature([8], tf.float32), 'price': tf.io.FixedLenFeature([1], tf.float32)}

    def parse(r):
        e = tf.io.parse_single_example(r, spec)
        return e['x'], e['price'] / 1e5

    ds = tf.data.TFRecordDataset(f'data/houses/{split}.tfrecord').map(parse)
    if train:
        ds = ds.shuffle(500).repeat()
    return ds.batch(bs)


train, val = make('train', 25, True), make('val', 100, False)
w = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, 'relu'), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-2)


@tf.function
def step(x, y):
    with tf.GradientTape() as t:
        l = tf.reduce_mean(tf.abs(w(x) - y))
    opt.apply_gradients(zip(t.gradient(l, w.trainable_variables), w.trainable_variables))
    return l


for epoch in range(10):
    mean = tf.keras.metrics.Mean()
    for x, y in train:
        mean.update_state(step(x, y))
    v = tf.reduce_mean([tf.reduce_mean(tf.abs(w(x) - y)) for x, y in val])
    print(f'epoch {epoch} train {mean.result():.3f} val {v:.3f}')
