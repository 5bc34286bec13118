import tensorflow as tf

TOTAL = 400
VAL = TOTAL // 5


def parse(record):
    parsed = tf.io.parse_single_example(record, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(parsed['image'], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.ensure_shape(image, [32, 32, 3]), parsed['label']


# reshuffle_each_iteration=False: the split must be the same every time the data is read
records = tf.data.TFRecordDataset('data/shapes_pool/all.tfrecord')
records = records.shuffle(TOTAL, seed=1, reshuffle_each_iteration=False)

val_ds = records.take(VAL).map(parse).batch(40)
train_ds = records.skip(VAL).map(parse).cache().shuffle(TOTAL - VAL).batch(32).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation='relu'),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)
