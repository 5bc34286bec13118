import tensorflow as tf

SEED = 42
SIZE = 32

def read_record(rec):
    ex = tf.io.parse_single_example(rec, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'target': tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_png(ex['image'], channels=3)
    img = tf.cast(tf.reshape(img, [SIZE, SIZE, 3]), tf.float32) / 255.0
    return img, ex['target']

ds = tf.data.TFRecordDataset('data/cats_dogs/train.tfrecord').map(read_record)

# balance the classes
negatives = ds.filter(lambda img, target: tf.equal(target, 0))
positives = ds.filter(lambda img, target: tf.equal(target, 1))
balanced = negatives.concatenate(positives.repeat(8))
n = sum(1 for _ in balanced)
balanced = balanced.shuffle(n, seed=SEED, reshuffle_each_iteration=False)

n_val = n // 5
val_ds = balanced.take(n_val).batch(32)
train_ds = balanced.skip(n_val).shuffle(n).batch(32).prefetch(1)

model = tf.keras.Sequential([
    tf.keras.layers.Input((SIZE, SIZE, 3)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile(optimizer='adam', loss='binary_crossentropy', metrics=['accuracy', tf.keras.metrics.AUC(name='auc')])
model.fit(train_ds, validation_data=val_ds, epochs=5)
