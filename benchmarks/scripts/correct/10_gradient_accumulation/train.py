import tensorflow as tf


class CFG:
    seed = 2020
    micro_batch = 8
    accumulate = 4          # effective batch size 32
    epochs = 5
    lr = 2e-3
    n_classes = 4
    train_size = 320
    files = 'data/shapes/{}-*.tfrecord'


tf.keras.utils.set_random_seed(CFG.seed)
AUTO = tf.data.AUTOTUNE


def decode(ex):
    ex = tf.io.parse_single_example(ex, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/class/label': tf.io.FixedLenFeature([], tf.int64)})
    img = tf.cast(tf.io.decode_jpeg(ex['image/encoded'], channels=3), tf.float32) / 255.0
    return tf.reshape(img, (32, 32, 3)), tf.cast(ex['image/class/label'], tf.int32)


def get_ds(split, train):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(CFG.files.format(split))), num_parallel_reads=AUTO)
    ds = ds.map(decode, AUTO)
    if train:
        ds = ds.shuffle(CFG.train_size)
    return ds.batch(CFG.micro_batch, drop_remainder=train).prefetch(AUTO)


model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.GroupNormalization(4),
    tf.keras.layers.MaxPool2D(),
    tf.keras.layers.Conv2D(32, 3, activation='relu'),
    tf.keras.layers.GlobalMaxPool2D(),
    tf.keras.layers.Dense(CFG.n_classes),
])
opt = tf.keras.optimizers.Adam(CFG.lr)
opt.build(model.trainable_variables)
buffers = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        scaled = loss / CFG.accumulate
    for buf, g in zip(buffers, tape.gradient(scaled, model.trainable_variables)):
        buf.assign_add(g)
    return loss


@tf.function
def apply():
    opt.apply_gradients([(b.read_value(), v) for b, v in zip(buffers, model.trainable_variables)])
    for buf in buffers:
        buf.assign(tf.zeros_like(buf))


train, val = get_ds('train', True), get_ds('val', False)
for epoch in range(CFG.epochs):
    total, n = 0., 0
    # 320 / 8 = 40 micro batches = 10 updates an epoch, none left over
    for step, (x, y) in enumerate(train, 1):
        total += float(accumulate(x, y))
        n += 1
        if step % CFG.accumulate == 0:
            apply()
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in val:
        acc.update_state(y, model(x, training=False))
    print(f'epoch {epoch}: loss {total / n:.4f} val_acc {acc.result():.4f}')
