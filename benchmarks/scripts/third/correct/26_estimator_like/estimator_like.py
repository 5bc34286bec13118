"""model_fn / input_fn code of 2018, moved to TF2 with as few changes as possible."""
import collections

import tensorflow as tf

ModeKeys = collections.namedtuple('ModeKeys', 'TRAIN EVAL')('train', 'eval')
PARAMS = dict(batch_size=30, learning_rate=2e-3, pos_weight=9.0, epochs=6)


def input_fn(mode, params):
    name = 'train' if mode == ModeKeys.TRAIN else 'val'

    def _parse(value):
        parsed = tf.io.parse_single_example(value, {
            'image': tf.io.FixedLenFeature((), tf.string, ''),
            'target': tf.io.FixedLenFeature((), tf.int64, -1)})
        image = tf.cast(tf.reshape(tf.io.decode_png(parsed['image'], 3), (32, 32, 3)), tf.float32)
        return tf.image.per_image_standardization(image), tf.cast(parsed['target'], tf.float32)

    dataset = tf.data.TFRecordDataset('data/cats_dogs/%s.tfrecord' % name).map(_parse)
    if mode == ModeKeys.TRAIN:
        dataset = dataset.cache().shuffle(300)
    return dataset.batch(params['batch_size'])


net = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, 2, activation='relu'),
    tf.keras.layers.Conv2D(32, 3, 2, activation='relu'),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(1),
    tf.keras.layers.Flatten(),
])
optimizer = tf.keras.optimizers.Adam(PARAMS['learning_rate'])


def model_fn(features, labels, mode, params):
    logits = net(features, training=mode == ModeKeys.TRAIN)[:, 0]
    loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(labels, logits, params['pos_weight']))
    return loss, logits


@tf.function
def train_on(features, labels):
    with tf.GradientTape() as tape:
        loss, _ = model_fn(features, labels, ModeKeys.TRAIN, PARAMS)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(list(zip(grads, net.trainable_variables)))
    return loss


for epoch in range(PARAMS['epochs']):
    for features, labels in input_fn(ModeKeys.TRAIN, PARAMS):
        train_on(features, labels)
    tp = tf.keras.metrics.TruePositives(thresholds=0.5)
    fp = tf.keras.metrics.FalsePositives(thresholds=0.5)
    for features, labels in input_fn(ModeKeys.EVAL, PARAMS):
        _, logits = model_fn(features, labels, ModeKeys.EVAL, PARAMS)
        tp.update_state(labels, tf.sigmoid(logits))
        fp.update_state(labels, tf.sigmoid(logits))
    print(epoch, 'hits', float(tp.result()), 'false alarms', float(fp.result()))
