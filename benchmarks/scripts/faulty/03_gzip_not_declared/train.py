import tensorflow as tf

def _parse(proto):
    keys_to_features = {'image': tf.io.FixedLenFeature([], tf.string),
                        'label': tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(proto, keys_to_features)
    image = tf.io.decode_jpeg(parsed['image'], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image.set_shape([32, 32, 3])
    return image, parsed['label']


def create_dataset(filepath, is_train):
    dataset = tf.data.TFRecordDataset(filepath)
    dataset = dataset.map(_parse, num_parallel_calls=8)
    if is_train:
        dataset = dataset.shuffle(500)
    return dataset.batch(16)


train = create_dataset('data/shapes_gzip/train.tfrecord.gz', True)
val = create_dataset('data/shapes_gzip/val.tfrecord.gz', False)

model = tf.keras.models.Sequential()
model.add(tf.keras.Input((32, 32, 3)))
model.add(tf.keras.layers.Conv2D(16, (3, 3), activation='relu'))
model.add(tf.keras.layers.MaxPooling2D((2, 2)))
model.add(tf.keras.layers.Flatten())
model.add(tf.keras.layers.Dense(64, activation='relu'))
model.add(tf.keras.layers.Dense(4, activation='softmax'))
model.compile(loss='sparse_categorical_crossentropy', optimizer='adam', metrics=['accuracy'])

model.fit(train, epochs=5, validation_data=val)
