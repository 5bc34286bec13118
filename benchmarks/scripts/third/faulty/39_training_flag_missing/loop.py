import time

import tensorflow as tf

tf.keras.utils.set_random_seed(3)
L = tf.keras.layers


def data(split, bs):
    def parse(r):
        e = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        x = tf.ensure_shape(tf.io.decode_jpeg(e['image'], channels=3), [32, 32, 3])
        return tf.cast(x, tf.float32) / 255., e['label']
    ds = tf.data.TFRecordDataset(f'data/shapes_gzip/{split}.tfrecord.gz', 'GZIP').map(parse).cache()
    return (ds.shuffle(320) if split == 'train' else ds).batch(bs)


model = tf.keras.Sequential([L.Input((32, 32, 3)), L.BatchNormalization()] + [
    layer for width in (16, 32) for layer in
    (L.Conv2D(width, 3, use_bias=False), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D())
] + [L.Flatten(), L.Dropout(0.4), L.Dense(4)])
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
train_loss = tf.keras.metrics.Mean()
train_acc = tf.keras.metrics.SparseCategoricalAccuracy()
val_acc = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def forward_backward(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=False)
        loss = loss_object(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss(loss)
    train_acc(y, logits)


train, val = data('train', 32), data('val', 80)
for epoch in range(6):
    t = time.time()
    for m in (train_loss, train_acc, val_acc):
        m.reset_state()
    for x, y in train:
        forward_backward(x, y)
    for x, y in val:
        val_acc(y, model(x, training=False))
    print(f'{epoch} loss {train_loss.result():.3f} acc {train_acc.result():.3f} '
          f'val {val_acc.result():.3f} ({time.time() - t:.1f}s)')
