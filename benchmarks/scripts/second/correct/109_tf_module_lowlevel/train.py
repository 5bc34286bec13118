import math

import tensorflow as tf


class Linear(tf.Module):
    def __init__(self, n_in, n_out, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.random.normal([n_in, n_out], stddev=math.sqrt(2.0 / n_in)), name="w")
        self.b = tf.Variable(tf.zeros([n_out]), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


class MLP(tf.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = Linear(16, 24), Linear(24, 3)

    def __call__(self, x):
        return self.l2(tf.nn.relu(self.l1(x)))


class Adam:
    def __init__(self, variables, lr, b1=0.9, b2=0.999, eps=1e-8):
        self.vars, self.lr, self.b1, self.b2, self.eps = variables, lr, b1, b2, eps
        self.m = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.v = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.t = tf.Variable(0.0)

    def apply(self, grads):
        self.t.assign_add(1.0)
        for var, g, m, v in zip(self.vars, grads, self.m, self.v):
            m.assign(self.b1 * m + (1 - self.b1) * g)
            v.assign(self.b2 * v + (1 - self.b2) * tf.square(g))
            m_hat, v_hat = m / (1 - self.b1 ** self.t), v / (1 - self.b2 ** self.t)
            var.assign_sub(self.lr * m_hat / (tf.sqrt(v_hat) + self.eps))


def parse(s):
    e = tf.io.parse_single_example(s, {"features": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.reshape(tf.io.decode_raw(e["features"], tf.float32), [16]), e["label"]


train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse).shuffle(400).batch(32)
val_x, val_y = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(100).get_single_element()

net = MLP()
optimizer = Adam(net.trainable_variables, lr=1e-2)


@tf.function(reduce_retracing=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=net(x)))
    optimizer.apply(tape.gradient(loss, net.trainable_variables))
    return loss


for epoch in range(3):
    losses = [float(train_step(x, y)) for x, y in train]
    accuracy = tf.reduce_mean(tf.cast(tf.argmax(net(val_x), axis=1) == val_y, tf.float32))
    print(f"{epoch}: {sum(losses) / len(losses):.4f} {float(accuracy):.3f}")
