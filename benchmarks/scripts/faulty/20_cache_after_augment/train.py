import tensorflow as tf

SIZE = 48
BUFFER_SIZE = 120
BATCH_SIZE = 12

spec = {
    'image': tf.io.FixedLenFeature([], tf.string),
    'mask': tf.io.FixedLenFeature([], tf.string),
}


def load(example):
    datapoint = tf.io.parse_single_example(example, spec)
    image = tf.io.decode_png(datapoint['image'], channels=3)
    mask = tf.io.decode_png(datapoint['mask'], channels=1)
    image = tf.reshape(tf.cast(image, tf.float32) / 255.0, (SIZE, SIZE, 3))
    mask = tf.reshape(tf.cast(mask, tf.int32), (SIZE, SIZE, 1))
    return image, mask


def load_image_train(example):
    input_image, input_mask = load(example)
    if tf.random.uniform(()) > 0.5:
        input_image = tf.image.flip_left_right(input_image)
        input_mask = tf.image.flip_left_right(input_mask)
    return input_image, input_mask


train = tf.data.TFRecordDataset('data/cells/train.tfrecord').map(load_image_train, num_parallel_calls=tf.data.AUTOTUNE)
test = tf.data.TFRecordDataset('data/cells/val.tfrecord').map(load)

train_dataset = train.cache().shuffle(BUFFER_SIZE).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)
test_dataset = test.batch(BATCH_SIZE)


def unet_model(output_channels):
    inputs = tf.keras.layers.Input(shape=[SIZE, SIZE, 3])
    d1 = tf.keras.layers.Conv2D(16, 3, padding='same', activation='relu')(inputs)
    p1 = tf.keras.layers.MaxPooling2D()(d1)
    d2 = tf.keras.layers.Conv2D(32, 3, padding='same', activation='relu')(p1)
    u1 = tf.keras.layers.Conv2DTranspose(16, 3, strides=2, padding='same', activation='relu')(d2)
    x = tf.keras.layers.Concatenate()([u1, d1])
    x = tf.keras.layers.Conv2D(output_channels, 1)(x)
    return tf.keras.Model(inputs=inputs, outputs=x)


model = unet_model(output_channels=3)
model.compile(optimizer='adam',
              loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'])
model.fit(train_dataset, epochs=10, validation_data=test_dataset)
