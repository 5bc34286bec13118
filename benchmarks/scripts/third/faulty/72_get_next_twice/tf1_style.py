import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.set_random_seed(1)

BATCH_SIZE = 50
EPOCHS = 8


def decode(serialized_example):
    features = tf.parse_single_example(
        serialized_example,
        features={
            'image_raw': tf.FixedLenFeature([], tf.string),
            'label': tf.FixedLenFeature([], tf.int64),
        })
    image = tf.decode_raw(features['image_raw'], tf.uint8)
    image.set_shape((784))
    return tf.cast(image, tf.float32) / 255., tf.cast(features['label'], tf.int32)


def inputs(pattern, train):
    dataset = tf.data.TFRecordDataset(tf.gfile.Glob(pattern)).map(decode)
    if train:
        dataset = dataset.shuffle(500).repeat(EPOCHS)
    dataset = dataset.batch(BATCH_SIZE)
    iterator = tf.data.make_one_shot_iterator(dataset)
    images = iterator.get_next()[0]
    labels = iterator.get_next()[1]
    return images, labels


def inference(images):
    with tf.variable_scope('mlp', reuse=tf.AUTO_REUSE):
        w1 = tf.get_variable('w1', [784, 64], initializer=tf.truncated_normal_initializer(stddev=0.05))
        b1 = tf.get_variable('b1', [64], initializer=tf.zeros_initializer())
        w2 = tf.get_variable('w2', [64, 10], initializer=tf.truncated_normal_initializer(stddev=0.1))
        b2 = tf.get_variable('b2', [10], initializer=tf.zeros_initializer())
    return tf.matmul(tf.nn.relu(tf.matmul(images, w1) + b1), w2) + b2


images, labels = inputs('data/digits/train-*', True)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=inference(images)))
train_op = tf.train.AdamOptimizer(2e-3).minimize(loss)

test_images, test_labels = inputs('data/digits/test-*', False)
correct = tf.nn.in_top_k(inference(test_images), test_labels, 1)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    step = 0
    try:
        while True:
            _, value = sess.run([train_op, loss])
            if step % 20 == 0:
                print('Step %d: loss = %.2f' % (step, value))
            step += 1
    except tf.errors.OutOfRangeError:
        print('Done training, %d steps.' % step)
    hits = []
    try:
        while True:
            hits.extend(sess.run(correct))
    except tf.errors.OutOfRangeError:
        pass
    print('test accuracy %.3f on %d' % (sum(hits) / len(hits), len(hits)))
