import tensorflow as tf

feature_spec = {
    'image_raw': tf.io.FixedLenFeature([], tf.string),
    'label': tf.io.FixedLenFeature([], tf.int64),
}


def parse(ex):
    ex = tf.io.parse_single_example(ex, feature_spec)
    img = tf.io.decode_raw(ex['image_raw'], tf.uint8)
    img = tf.reshape(img, (28, 28, 1))
    return tf.cast(img, tf.float32) / 255.0, ex['label']


train_ds = tf.data.TFRecordDataset(tf.io.gfile.glob('data/digits/train-*')).map(parse).shuffle(500).batch(50)
test_ds = tf.data.TFRecordDataset(tf.io.gfile.glob('data/digits/test-*')).map(parse).batch(50)

data_augmentation = tf.keras.Sequential([
    tf.keras.layers.RandomFlip('horizontal'),
    tf.keras.layers.RandomTranslation(0.05, 0.05),
])

inputs = tf.keras.Input((28, 28, 1))
x = data_augmentation(inputs)
x = tf.keras.layers.Conv2D(16, 3, activation='relu')(x)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Conv2D(32, 3, activation='relu')(x)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Flatten()(x)
x = tf.keras.layers.Dense(64, activation='relu')(x)
outputs = tf.keras.layers.Dense(10, activation='softmax')(x)

model = tf.keras.Model(inputs, outputs)
model.compile(optimizer=tf.keras.optimizers.Adam(0.002), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train_ds, epochs=8, validation_data=test_ds, verbose=2)
print('Test accuracy:', model.evaluate(test_ds, verbose=0)[1])
