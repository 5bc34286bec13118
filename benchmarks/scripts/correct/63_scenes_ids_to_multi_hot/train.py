import functools

import tensorflow as tf

NUM_LABELS = 6


def parse_example(serialized, training):
    features = tf.io.parse_single_example(serialized, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'labels': tf.io.VarLenFeature(tf.int64),      # 0 to 4 ids
    })
    image = tf.image.decode_jpeg(features['image'], channels=3)
    image = tf.cast(tf.reshape(image, [32, 32, 3]), tf.float32) / 255.
    if training:
        image = tf.image.random_brightness(image, 0.05)
    ids = tf.sparse.to_dense(features['labels'])
    # an image without labels gives all zeros
    target = tf.reduce_sum(tf.one_hot(ids, NUM_LABELS), axis=0)
    return image, target


def build_dataset(path, batch_size, training):
    ds = tf.data.TFRecordDataset(path)
    if training:
        ds = ds.shuffle(300)
    ds = ds.map(functools.partial(parse_example, training=training), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(1)


def weighted_bce(pos_weight):
    def loss(y_true, logits):
        per_label = tf.nn.weighted_cross_entropy_with_logits(y_true, logits, pos_weight)
        return tf.reduce_mean(per_label, axis=-1)
    return loss


def main():
    train = build_dataset('data/scenes/train.tfrecord', 30, True)
    val = build_dataset('data/scenes/val.tfrecord', 40, False)
    model = tf.keras.Sequential([
        tf.keras.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 5, strides=2, activation='relu'),
        tf.keras.layers.Conv2D(24, 3, strides=2, activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(NUM_LABELS),
    ])
    model.compile(tf.keras.optimizers.Adam(3e-3), loss=weighted_bce(2.0),
                  metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)])
    model.fit(train, validation_data=val, epochs=6, verbose=2)


if __name__ == '__main__':
    main()
