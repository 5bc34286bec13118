"""Ported training loop; global_step is a tf.Variable so that the graph sees it change."""
import math

import tensorflow as tf

flags = dict(batch=32, epochs=5, lr=0.05, warmup=10)


def decode(value):
    parsed = tf.io.parse_single_example(value, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64)})
    image = tf.image.decode_jpeg(parsed['image'], channels=3)
    image = tf.reshape(tf.image.convert_image_dtype(image, tf.float32), [32, 32, 3])
    return image, tf.cast(parsed['label'], tf.int32)


def pipeline(path, training):
    ds = tf.data.TFRecordDataset([path], compression_type='GZIP').map(decode).cache()
    if training:
        ds = ds.shuffle(320)
    return ds.batch(flags['batch'])


train = pipeline('data/shapes_gzip/train.tfrecord.gz', True)
val = pipeline('data/shapes_gzip/val.tfrecord.gz', False)
total = flags['epochs'] * math.ceil(320 / flags['batch'])
global_step = tf.Variable(0, dtype=tf.int64, trainable=False, name='global_step')

net = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 5, 2, activation='relu'),
    tf.keras.layers.Conv2D(32, 3, 2, activation='relu'),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(4)])
optimizer = tf.keras.optimizers.SGD(0.0, momentum=0.9)


@tf.function
def train_op(images, labels):
    t = tf.cast(global_step, tf.float32)
    warm = tf.minimum(1.0, (t + 1.0) / flags['warmup'])
    rate = flags['lr'] * warm * 0.5 * (1.0 + tf.cos(math.pi * t / total))
    optimizer.learning_rate.assign(rate)
    with tf.GradientTape() as tape:
        logits = net(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    variables = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    global_step.assign_add(1)
    return loss, rate


for epoch in range(flags['epochs']):
    for images, labels in train:
        loss, rate = train_op(images, labels)
    right = sum(int(tf.reduce_sum(tf.cast(tf.math.in_top_k(y, net(x), 1), tf.int32))) for x, y in val)
    print('epoch %d loss %.3f rate %.4f val %d/80' % (epoch, loss, rate, right))
