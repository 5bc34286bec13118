import tensorflow as tf

# Sanity check from the lecture: can the network memorise a single batch?
# If this does not reach ~100 % there is a bug. After that the real training starts from scratch.

spec = {
    'image': tf.io.FixedLenFeature([], tf.string),
    'meta': tf.io.FixedLenFeature([4], tf.float32),
    'label': tf.io.FixedLenFeature([], tf.int64),
}


def parse(r):
    r = tf.io.parse_single_example(r, spec)
    img = tf.cast(tf.io.decode_jpeg(r['image'], channels=3), tf.float32) / 255.0
    return (tf.reshape(img, [32, 32, 3]), r['meta']), r['label']


train = tf.data.TFRecordDataset('data/listings/train.tfrecord').map(parse)
val = tf.data.TFRecordDataset('data/listings/val.tfrecord').map(parse).batch(40)


def make_model():
    img = tf.keras.Input((32, 32, 3))
    meta = tf.keras.Input((4,))
    a = tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu')(img)
    a = tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu')(a)
    a = tf.keras.layers.Flatten()(a)
    x = tf.keras.layers.Concatenate()([a, meta])
    x = tf.keras.layers.Dense(32, activation='relu')(x)
    model = tf.keras.Model([img, meta], tf.keras.layers.Dense(3, activation='softmax')(x))
    model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])
    return model


one_batch = train.batch(16).take(1).cache().repeat(40)
model = make_model()
h = model.fit(one_batch, epochs=2, verbose=0)
print('memorised:', h.history['accuracy'][-1])
assert h.history['accuracy'][-1] > 0.9

model = make_model()
model.fit(train.shuffle(300).batch(20), validation_data=val, epochs=4, verbose=2)
