"""Digit classifier. Ported from our 1.x estimator code (2018)."""
import argparse

import tensorflow as tf

IMAGE_SIZE = 28
NUM_CLASSES = 10


def _parse_function(serialized):
    features = tf.io.parse_single_example(
        serialized,
        features={
            'image_raw': tf.io.FixedLenFeature([], tf.string),
            'label': tf.io.FixedLenFeature([], tf.int64),
        })
    image = tf.io.decode_raw(features['image_raw'], tf.int8)
    image.set_shape([IMAGE_SIZE * IMAGE_SIZE])
    image = tf.cast(image, tf.float32) * (1. / 255) - 0.5
    label = tf.cast(features['label'], tf.int32)
    return image, label


def input_fn(filenames, batch_size, shuffle):
    dataset = tf.data.TFRecordDataset(filenames)
    dataset = dataset.map(_parse_function)
    if shuffle:
        dataset = dataset.shuffle(buffer_size=500)
    return dataset.batch(batch_size)


class Mlp(tf.Module):
    def __init__(self, hidden):
        super().__init__()
        init = tf.random.truncated_normal
        self.w1 = tf.Variable(init([IMAGE_SIZE * IMAGE_SIZE, hidden], stddev=0.05))
        self.b1 = tf.Variable(tf.zeros([hidden]))
        self.w2 = tf.Variable(init([hidden, NUM_CLASSES], stddev=0.1))
        self.b2 = tf.Variable(tf.zeros([NUM_CLASSES]))

    def __call__(self, x):
        h = tf.nn.relu(tf.matmul(x, self.w1) + self.b1)
        return tf.matmul(h, self.w2) + self.b2


def main(flags):
    net = Mlp(flags.hidden)
    opt = tf.keras.optimizers.Adam(flags.learning_rate)
    train = input_fn(tf.io.gfile.glob('data/digits/train-*'), flags.batch_size, True)
    test = input_fn(tf.io.gfile.glob('data/digits/test-*'), 100, False)
    for epoch in range(flags.epochs):
        for images, labels in train:
            with tf.GradientTape() as tape:
                xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net(images))
                loss = tf.reduce_mean(xent)
            grads = tape.gradient(loss, net.trainable_variables)
            opt.apply_gradients(zip(grads, net.trainable_variables))
        print('epoch', epoch, 'loss', float(loss))
    hits = [tf.equal(tf.argmax(net(x), 1, output_type=tf.int32), y) for x, y in test]
    print('test accuracy', float(tf.reduce_mean(tf.cast(tf.concat(hits, 0), tf.float32))))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--hidden', type=int, default=64)
    parser.add_argument('--batch_size', type=int, default=50)
    parser.add_argument('--learning_rate', type=float, default=1e-3)
    parser.add_argument('--epochs', type=int, default=5)
    main(parser.parse_args())
