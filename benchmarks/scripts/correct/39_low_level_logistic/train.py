import numpy as np
import tensorflow as tf


class Linear(tf.Module):
    def __init__(self, n_in, n_out, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.random.normal([n_in, n_out], stddev=n_in ** -0.5), name="w")
        self.b = tf.Variable(tf.zeros([n_out]), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


class MLP(tf.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [Linear(a, b) for a, b in zip(sizes, sizes[1:])]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = tf.nn.tanh(layer(x))
        return self.layers[-1](x)      # logits


def parse(s):
    p = tf.io.parse_single_example(s, {'features': tf.io.FixedLenFeature([], tf.string),
                                       'label': tf.io.FixedLenFeature([], tf.int64)})
    return tf.reshape(tf.io.decode_raw(p['features'], tf.float32), [16]), p['label']


train = tf.data.TFRecordDataset('data/vectors/train.tfrecord').map(parse).cache().shuffle(400).batch(20)
val = next(iter(tf.data.TFRecordDataset('data/vectors/val.tfrecord').map(parse).batch(100)))

net = MLP([16, 24, 3])
velocity = [tf.Variable(tf.zeros_like(v), trainable=False) for v in net.trainable_variables]
lr, momentum = 0.05, 0.9


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
    for v, var, g in zip(velocity, net.trainable_variables, tape.gradient(loss, net.trainable_variables)):
        v.assign(momentum * v - lr * g)
        var.assign_add(v)
    return loss


for epoch in range(6):
    losses = [update(x, y).numpy() for x, y in train]
    hits = tf.argmax(net(val[0]), axis=-1) == val[1]
    print('epoch %d loss %.4f val accuracy %.3f' % (epoch, np.mean(losses), tf.reduce_mean(tf.cast(hits, tf.float32))))
