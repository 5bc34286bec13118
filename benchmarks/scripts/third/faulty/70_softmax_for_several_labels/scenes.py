import tensorflow as tf

N_CLASSES = 6


def parse_fn(record):
    ex = tf.io.parse_single_example(record, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'multi_hot': tf.io.FixedLenFeature([N_CLASSES], tf.int64),
    })
    image = tf.io.decode_jpeg(ex['image'], channels=3)
    image = tf.image.resize(image, (32, 32)) / 255.0
    return image, tf.cast(ex['multi_hot'], tf.float32)


train_ds = tf.data.TFRecordDataset('data/scenes/train.tfrecord').map(parse_fn).shuffle(300).batch(20).prefetch(1)
val_ds = tf.data.TFRecordDataset('data/scenes/val.tfrecord').map(parse_fn).batch(20)

inputs = tf.keras.layers.Input((32, 32, 3))
x = tf.keras.layers.Conv2D(16, 3, activation='relu')(inputs)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Conv2D(32, 3, activation='relu')(x)
x = tf.keras.layers.Flatten()(x)
x = tf.keras.layers.Dense(64, activation='relu')(x)
outputs = tf.keras.layers.Dense(N_CLASSES, activation='softmax')(x)
model = tf.keras.Model(inputs, outputs)

model.compile(optimizer='adam', loss='categorical_crossentropy', metrics=['binary_accuracy'])
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)

for images, labels in val_ds.take(1):
    print((model.predict(images, verbose=0)[:5] > 0.5).astype(int))
    print(labels[:5].numpy().astype(int))
