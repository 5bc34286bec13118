import tensorflow as tf

NUM_TRAIN, NUM_VAL = 425, 75
BATCH = 25
EPOCHS = 8


def parse_digit(record):
    parsed = tf.io.parse_single_example(record, {
        'image_raw': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_raw(parsed['image_raw'], tf.uint8)
    image = tf.reshape(tf.cast(image, tf.float32), [28, 28, 1]) * (1. / 255)
    return image, tf.cast(parsed['label'], tf.int32)


files = sorted(tf.io.gfile.glob('data/digits/train-*.tfrecord'))
full = tf.data.TFRecordDataset(files)           # read in the same order every time
train = full.skip(NUM_VAL).map(parse_digit).cache().shuffle(NUM_TRAIN).batch(BATCH).prefetch(2)
val = full.take(NUM_VAL).map(parse_digit).batch(NUM_VAL)
test = tf.data.TFRecordDataset('data/digits/test-00000-of-00001.tfrecord').map(parse_digit).batch(100)

lr = tf.keras.optimizers.schedules.CosineDecay(0.05, decay_steps=EPOCHS * NUM_TRAIN // BATCH)
model = tf.keras.models.Sequential()
model.add(tf.keras.Input(shape=(28, 28, 1)))
model.add(tf.keras.layers.Conv2D(16, (5, 5), strides=2, activation='relu'))
model.add(tf.keras.layers.Conv2D(32, (3, 3), strides=2, activation='relu'))
model.add(tf.keras.layers.Flatten())
model.add(tf.keras.layers.Dense(10, activation='softmax'))
model.compile(optimizer=tf.keras.optimizers.SGD(lr, momentum=0.9, nesterov=True),
              loss='sparse_categorical_crossentropy',
              metrics=['accuracy'])
model.fit(train, validation_data=val, epochs=EPOCHS, verbose=2)
print('test loss, acc:', model.evaluate(test, verbose=0))
