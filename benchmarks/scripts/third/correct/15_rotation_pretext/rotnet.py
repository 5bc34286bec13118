"""Self-supervised pretext task: the stored labels are thrown away, the target is the rotation."""
import tensorflow as tf

SPEC = {'image': tf.io.FixedLenFeature([], tf.string), 'label': tf.io.FixedLenFeature([], tf.int64)}
tf.keras.utils.set_random_seed(4)


def images(split):
    ds = tf.data.TFRecordDataset(f'data/shapes_gzip/{split}.tfrecord.gz', compression_type='GZIP', buffer_size=1 << 20)
    return ds.map(lambda r: tf.ensure_shape(
        tf.io.decode_jpeg(tf.io.parse_single_example(r, SPEC)['image'], channels=3), [32, 32, 3]))


def rotate(image):
    four = tf.stack([tf.image.rot90(image, k) for k in range(2)])
    return tf.data.Dataset.from_tensor_slices((tf.cast(four, tf.float32) / 255., tf.range(2)))


# interleave keeps the two rotations of one picture apart from each other in the shuffle buffer
train = images('train').interleave(rotate, cycle_length=16).shuffle(640).batch(64)
val = images('val').flat_map(rotate).batch(80)

enc = tf.keras.Sequential([tf.keras.Input((32, 32, 3)),
                           tf.keras.layers.Conv2D(16, 5, 2, activation='relu'),
                           tf.keras.layers.Conv2D(32, 3, 2, activation='relu'),
                           tf.keras.layers.GlobalMaxPooling2D()])
pretext = tf.keras.Sequential([enc, tf.keras.layers.Dense(2)])
pretext.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=['accuracy'])
pretext.fit(train, validation_data=val, epochs=4, verbose=2)

# linear probe on the frozen encoder
enc.trainable = False
probe = tf.keras.Sequential([enc, tf.keras.layers.Dense(4)])
probe.compile(tf.keras.optimizers.Adam(1e-2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'])


def labelled(split):
    def f(r):
        e = tf.io.parse_single_example(r, SPEC)
        x = tf.ensure_shape(tf.io.decode_jpeg(e['image'], channels=3), [32, 32, 3])
        return tf.cast(x, tf.float32) / 255., e['label']
    return tf.data.TFRecordDataset(f'data/shapes_gzip/{split}.tfrecord.gz', 'GZIP').map(f)


probe.fit(labelled('train').shuffle(320).batch(32), epochs=4, validation_data=labelled('val').batch(80), verbose=2)
