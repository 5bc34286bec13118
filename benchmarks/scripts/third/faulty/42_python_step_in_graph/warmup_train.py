import tensorflow as tf

WARMUP_STEPS = 20
BASE_LR = 0.2


def read_and_decode(filenames, batch_size, is_training):
    def decode(serialized_example):
        features = tf.io.parse_single_example(serialized_example, features={
            'image_raw': tf.io.FixedLenFeature([], tf.string),
            'label': tf.io.FixedLenFeature([], tf.int64)})
        image = tf.cast(tf.io.decode_raw(features['image_raw'], tf.uint8), tf.float32) / 255.
        image.set_shape((784,))
        return image, tf.cast(features['label'], tf.int32)
    ds = tf.data.TFRecordDataset(filenames).map(decode)
    if is_training:
        ds = ds.shuffle(1000)
    return ds.batch(batch_size)


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential([
            tf.keras.layers.Input((784,)),
            tf.keras.layers.Dense(128, activation='relu'),
            tf.keras.layers.Dense(10)])
        self.optimizer = tf.keras.optimizers.SGD(learning_rate=BASE_LR)
        self.global_step = 0

    def learning_rate(self):
        return BASE_LR * min(1.0, (self.global_step + 1) / WARMUP_STEPS)

    @tf.function
    def train_op(self, images, labels):
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.learning_rate.assign(self.learning_rate())
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.global_step += 1
        return loss


def main():
    trainer = Trainer()
    train = read_and_decode(tf.io.gfile.glob('data/digits/train-*'), 25, True)
    test = read_and_decode(tf.io.gfile.glob('data/digits/test-*'), 100, False)
    for epoch in range(6):
        for images, labels in train:
            loss = trainer.train_op(images, labels)
        print('epoch %d loss %.4f' % (epoch, loss.numpy()))
    for images, labels in test:
        hits = tf.equal(tf.argmax(trainer.model(images), 1, output_type=tf.int32), labels)
        print('test accuracy %.3f' % tf.reduce_mean(tf.cast(hits, tf.float32)).numpy())


if __name__ == '__main__':
    main()
