import tensorflow as tf

NAMES = ['sky', 'sea', 'sand', 'tree', 'road', 'house']


def parse(r):
    f = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                       'multi_hot': tf.io.FixedLenFeature([6], tf.int64)})
    x = tf.cast(tf.io.decode_jpeg(f['image'], channels=3), tf.float32)
    y = {name: f['multi_hot'][i:i + 1] for i, name in enumerate(NAMES)}
    return tf.ensure_shape(x, [32, 32, 3]), y


train = tf.data.TFRecordDataset('data/scenes/train.tfrecord').map(parse).shuffle(300).batch(30)
val = tf.data.TFRecordDataset('data/scenes/val.tfrecord').map(parse).batch(40)

inp = tf.keras.Input((32, 32, 3))
x = tf.keras.layers.Rescaling(1. / 255)(inp)
x = tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu')(x)
x = tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu')(x)
x = tf.keras.layers.Flatten()(x)
outputs = {name: tf.keras.layers.Dense(1, activation='sigmoid', name=name)(x) for name in NAMES}

model = tf.keras.Model(inp, outputs)
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3),
              loss={name: 'binary_crossentropy' for name in NAMES},
              metrics={name: ['accuracy'] for name in NAMES})
model.fit(train, validation_data=val, epochs=5, verbose=2)
