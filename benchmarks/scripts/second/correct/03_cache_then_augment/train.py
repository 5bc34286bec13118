import tensorflow as tf
from tensorflow import keras

FEATURES = {
    'image': tf.io.FixedLenFeature((), tf.string),
    'label': tf.io.FixedLenFeature((), tf.int64),
}


def _decode(proto):
    parsed = tf.io.parse_single_example(proto, FEATURES)
    img = tf.io.decode_jpeg(parsed['image'], channels=3)
    img.set_shape((32, 32, 3))
    return img, parsed['label']


def _augment(img, label):
    # random ops come after cache(), otherwise every epoch would see the same crops
    img = tf.image.random_flip_left_right(img)
    img = tf.pad(img, [[3, 3], [3, 3], [0, 0]], mode='REFLECT')
    img = tf.image.random_crop(img, (32, 32, 3))
    return img, label


def _scale(img, label):
    return tf.cast(img, tf.float32) / 127.5 - 1.0, label


def make_dataset(path, training):
    ds = tf.data.TFRecordDataset(path, compression_type='GZIP')
    ds = ds.map(_decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(320, reshuffle_each_iteration=True)
        ds = ds.map(_augment, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(_scale, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


def build():
    inputs = keras.Input((32, 32, 3))
    x = inputs
    for filters in (16, 32):
        x = keras.layers.Conv2D(filters, 3, padding='same', use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=0.8)(x)
        x = keras.layers.ReLU()(x)
        x = keras.layers.MaxPool2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dropout(0.3)(x)
    return keras.Model(inputs, keras.layers.Dense(4)(x))


def main():
    keras.utils.set_random_seed(7)
    train = make_dataset('data/shapes_gzip/train.tfrecord.gz', training=True)
    val = make_dataset('data/shapes_gzip/val.tfrecord.gz', training=False)
    model = build()
    model.compile(
        optimizer='adam',
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=['accuracy'],
    )
    model.fit(train, validation_data=val, epochs=5, verbose=2)


if __name__ == '__main__':
    main()
