import tensorflow as tf

tf.keras.utils.set_random_seed(21)
CLIP = 0.5


def parse(r):
    c, s = tf.io.parse_single_sequence_example(
        r, {'label': tf.io.FixedLenFeature([], tf.int64), 'length': tf.io.FixedLenFeature([], tf.int64)},
        {'frames': tf.io.FixedLenSequenceFeature([6], tf.float32)})
    return s['frames'], c['length'], c['label']


def get(split, bs):
    ds = tf.data.TFRecordDataset(f'data/gestures/{split}.tfrecord').map(parse)
    if split == 'train':
        ds = ds.shuffle(300)
    return ds.padded_batch(bs, ([30, 6], [], []))


rnn = tf.keras.layers.SimpleRNN(32)
head = tf.keras.layers.Dense(5)


def logits(frames, length):
    mask = tf.sequence_mask(length, 30)
    return head(rnn(frames, mask=mask))


opt = tf.keras.optimizers.SGD(0.2, momentum=0.9)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def update(frames, length, y):
    with tf.GradientTape() as tape:
        loss = xent(y, logits(frames, length))
    params = rnn.trainable_variables + head.trainable_variables
    grads = tape.gradient(loss, params)
    clipped, norm = tf.clip_by_global_norm(grads, CLIP)
    opt.apply_gradients(zip(grads, params))
    return loss, norm


for epoch in range(8):
    logs = [update(*b) for b in get('train', 30)]
    losses, norms = zip(*logs)
    print(epoch, f'loss {tf.reduce_mean(losses):.3f} max norm {tf.reduce_max(norms):.2f}')
hits = tf.concat([tf.argmax(logits(f, n), 1) == y for f, n, y in get('val', 80)], 0)
print('val', float(tf.reduce_mean(tf.cast(hits, tf.float32))))
