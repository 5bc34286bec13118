import tensorflow as tf

BATCH_SIZE = 40


def decode(example):
    ex = tf.io.parse_single_example(example, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(ex['image'], channels=3)
    image = tf.cast(image, tf.float32) / 255.
    image = tf.reshape(image, [32, 32, 3])
    return image, ex['label']


train_data = tf.data.TFRecordDataset('data/shapes_sorted/train.tfrecord')
train_data = train_data.map(decode)
train_data = train_data.batch(BATCH_SIZE)
train_data = train_data.shuffle(320)
train_data = train_data.prefetch(tf.data.AUTOTUNE)

val_data = tf.data.TFRecordDataset('data/shapes_sorted/val.tfrecord').map(decode).batch(BATCH_SIZE)

model = tf.keras.Sequential()
model.add(tf.keras.layers.Input(shape=(32, 32, 3)))
model.add(tf.keras.layers.Conv2D(16, (3, 3), activation='relu'))
model.add(tf.keras.layers.BatchNormalization())
model.add(tf.keras.layers.MaxPooling2D((2, 2)))
model.add(tf.keras.layers.Conv2D(32, (3, 3), activation='relu'))
model.add(tf.keras.layers.BatchNormalization())
model.add(tf.keras.layers.GlobalAveragePooling2D())
model.add(tf.keras.layers.Dense(4, activation='softmax'))

model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train_data, validation_data=val_data, epochs=6, verbose=2)
print('evaluate:', model.evaluate(val_data, verbose=0))
