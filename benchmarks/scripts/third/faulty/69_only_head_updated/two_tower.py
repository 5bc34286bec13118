"""Fuse picture and meta numbers. Plain modules, one optimiser."""
import tensorflow as tf

K = tf.keras.layers
tf.keras.utils.set_random_seed(13)


def load(split):
    def parse(r):
        e = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                           'meta': tf.io.FixedLenFeature([4], tf.float32),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        im = tf.ensure_shape(tf.io.decode_jpeg(e['image'], channels=3), [32, 32, 3])
        return tf.cast(im, tf.float32) / 255., e['meta'], e['label']
    return tf.data.TFRecordDataset(f'data/listings/{split}.tfrecord').map(parse).cache()


vision = tf.keras.Sequential([K.Input((32, 32, 3)), K.Conv2D(8, 3, 2, activation='relu'),
                              K.Conv2D(16, 3, 2, activation='relu'), K.GlobalAveragePooling2D()])
numbers = tf.keras.Sequential([K.Input((4,)), K.Dense(8, activation='relu')])
head = tf.keras.Sequential([K.Input((24,)), K.Dense(3)])
opt = tf.keras.optimizers.Adam(3e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def forward(im, meta, training):
    z = tf.concat([vision(im, training=training), numbers(meta, training=training)], -1)
    return head(z, training=training)


@tf.function
def step(im, meta, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, forward(im, meta, True))
    params = head.trainable_variables
    opt.apply_gradients(zip(tape.gradient(loss, params), params))
    return loss


train, val = load('train').shuffle(300).batch(30), load('val').batch(80)
for epoch in range(8):
    for batch in train:
        loss = step(*batch)
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for im, meta, y in val:
        acc.update_state(y, forward(im, meta, False))
    print(f'{epoch} {loss:.3f} {acc.result():.3f}')
