import tensorflow as tf
from tensorflow.keras import Input, Model, layers


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'meta': tf.io.FixedLenFeature([4], tf.float32),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    photo = tf.image.convert_image_dtype(tf.io.decode_jpeg(f['image'], channels=3), tf.float32)
    photo = tf.ensure_shape(photo, [32, 32, 3])
    return {'photo': photo, 'meta': f['meta']}, f['label']


train = tf.data.TFRecordDataset('data/listings/train.tfrecord').map(parse).cache()
val = tf.data.TFRecordDataset('data/listings/val.tfrecord').map(parse).batch(40)

scaler = layers.Normalization()
scaler.adapt(train.map(lambda x, y: x['meta']).batch(64))

photo = Input((32, 32, 3), name='photo')
a = layers.Conv2D(16, 3, strides=2, activation='relu')(photo)
a = layers.Conv2D(24, 3, strides=2, activation='relu')(a)
a = layers.GlobalAveragePooling2D()(a)

meta = Input((4,), name='meta')
b = layers.Dense(16, activation='relu')(scaler(meta))

h = layers.concatenate([a, b])
h = layers.Dense(32, activation='relu')(h)
output = layers.Dense(3, activation='softmax')(h)

model = Model({'photo': photo, 'meta': meta}, output)
model.compile(optimizer=tf.keras.optimizers.Adam(4e-3), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train.shuffle(300).batch(30).prefetch(1), validation_data=val, epochs=5, verbose=2)
