import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(7)


def parser(serialized):
    f = tf.parse_single_example(serialized, {
        'image_raw': tf.FixedLenFeature([], tf.string),
        'label': tf.FixedLenFeature([], tf.int64)})
    image = tf.reshape(tf.decode_raw(f['image_raw'], tf.uint8), [784])
    return tf.cast(image, tf.float32) / 255., f['label']


train = tf.data.TFRecordDataset(tf.gfile.Glob('data/digits/train-*')).map(parser).shuffle(500).batch(50)
test = tf.data.TFRecordDataset(tf.gfile.Glob('data/digits/test-*')).map(parser).batch(100)

# one reinitialisable iterator for both sets
iterator = tf.data.Iterator.from_structure(tf.data.get_output_types(train), tf.data.get_output_shapes(train))
images, labels = iterator.get_next()
init_train, init_test = iterator.make_initializer(train), iterator.make_initializer(test)

keep_prob = tf.placeholder_with_default(1.0, ())
w1 = tf.get_variable('w1', [784, 100], initializer=tf.truncated_normal_initializer(stddev=0.05))
b1 = tf.get_variable('b1', [100], initializer=tf.constant_initializer(0.1))
w2 = tf.get_variable('w2', [100, 10], initializer=tf.truncated_normal_initializer(stddev=0.1))
b2 = tf.get_variable('b2', [10], initializer=tf.zeros_initializer())
hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(images, w1) + b1), rate=1 - keep_prob)
logits = tf.matmul(hidden, w2) + b2

xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
loss = tf.reduce_mean(xent) + 1e-4 * (tf.nn.l2_loss(w1) + tf.nn.l2_loss(w2))
global_step = tf.train.get_or_create_global_step()
rate = tf.train.exponential_decay(3e-3, global_step, 50, 0.9, staircase=True)
train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for epoch in range(8):
        sess.run(init_train)
        while True:
            try:
                _, value = sess.run([train_op, loss], {keep_prob: 0.8})
            except tf.errors.OutOfRangeError:
                break
        sess.run(init_test)
        print('epoch %d loss %.3f test accuracy %.3f' % (epoch, value, sess.run(accuracy)))
