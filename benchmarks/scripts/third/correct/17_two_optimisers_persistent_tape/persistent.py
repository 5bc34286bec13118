import tensorflow as tf

tf.keras.utils.set_random_seed(2)
L = tf.keras.layers
body = tf.keras.Sequential([L.Input((32, 32, 3)), L.Conv2D(16, 3, 2, activation='relu'),
                            L.Conv2D(16, 3, 2, activation='relu'), L.GlobalMaxPooling2D()])
fuse = tf.keras.Sequential([L.Input((20,)), L.Dense(16, activation='relu'), L.Dense(3)])
slow, fast = tf.keras.optimizers.SGD(0.02, momentum=0.9), tf.keras.optimizers.Adam(5e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction='none')


def load(split):
    def parse(r):
        e = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                           'meta': tf.io.FixedLenFeature([4], tf.float32),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        x = tf.ensure_shape(tf.io.decode_jpeg(e['image'], channels=3), [32, 32, 3])
        return tf.cast(x, tf.float32) / 255., e['meta'], e['label']
    return tf.data.TFRecordDataset(f'data/listings/{split}.tfrecord').map(parse).cache()


def logits(image, meta):
    return fuse(tf.concat([body(image), meta], 1))


@tf.function
def step(image, meta, y):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.nn.compute_average_loss(loss_fn(y, logits(image, meta)), global_batch_size=30)
    slow.apply_gradients(zip(tape.gradient(loss, body.trainable_variables), body.trainable_variables))
    fast.apply_gradients(zip(tape.gradient(loss, fuse.trainable_variables), fuse.trainable_variables))
    del tape
    return loss


for epoch in range(6):
    total = n = 0
    for batch in load('train').shuffle(300).batch(30):
        total, n = total + float(step(*batch)), n + 1
    hits = [tf.argmax(logits(i, m), 1) == y for i, m, y in load('val').batch(50)]
    print(epoch, total / n, float(tf.reduce_mean(tf.cast(tf.concat(hits, 0), tf.float32))))
