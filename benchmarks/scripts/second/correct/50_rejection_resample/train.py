import tensorflow as tf

SPEC = {'image': tf.io.FixedLenFeature([], tf.string), 'target': tf.io.FixedLenFeature([], tf.int64)}


def parse(record):
    d = tf.io.parse_single_example(record, SPEC)
    img = tf.io.decode_png(d['image'], channels=3)
    img = tf.ensure_shape(img, (32, 32, 3))
    return tf.cast(img, tf.float32) / 127.5 - 1, tf.cast(d['target'], tf.int32)


base = tf.data.TFRecordDataset('data/cats_dogs/train.tfrecord').map(parse).cache()
resampled = (
    base.shuffle(300)
    .repeat()
    .rejection_resample(class_func=lambda img, y: y, target_dist=[0.5, 0.5], initial_dist=[0.9, 0.1], seed=1)
    .map(lambda cls, example: example)     # it yields (class, example)
    .map(lambda img, y: (tf.image.random_flip_left_right(img), y))
    .batch(20)
    .prefetch(tf.data.AUTOTUNE)
)
val = tf.data.TFRecordDataset('data/cats_dogs/val.tfrecord').map(parse).batch(40)

ones = sum(int(tf.reduce_sum(y)) for _, y in resampled.take(10))
print('share of positives in ten batches:', ones / 200)

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(12, 3, strides=2, activation='relu'),
    tf.keras.layers.Conv2D(24, 3, strides=2, activation='relu'),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile(tf.keras.optimizers.Adam(6e-3), 'binary_crossentropy',
              metrics=[tf.keras.metrics.AUC(name='auc'), tf.keras.metrics.Recall(name='recall')])
model.fit(resampled, steps_per_epoch=12, epochs=5, validation_data=val, verbose=2)
