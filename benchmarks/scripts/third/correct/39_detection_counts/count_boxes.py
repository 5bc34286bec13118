"""How many objects of each class? Regression with a Poisson likelihood on the number of boxes."""
import tensorflow as tf

tf.keras.utils.set_random_seed(9)
SPEC = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/object/class/label': tf.io.VarLenFeature(tf.int64),
}


def parse(r):
    e = tf.io.parse_single_example(r, SPEC)
    x = tf.ensure_shape(tf.io.decode_jpeg(e['image/encoded'], channels=3), [64, 64, 3])
    ids = e['image/object/class/label'].values - 1
    return tf.cast(x, tf.float32) / 255., tf.math.bincount(tf.cast(ids, tf.int32), minlength=3, maxlength=3, dtype=tf.float32)


train = tf.data.TFRecordDataset('data/boxes/train.tfrecord').map(parse).cache().shuffle(160)
train = train.map(lambda x, y: (tf.image.random_flip_left_right(x), y)).batch(16)  # a count does not care about flips
val = tf.data.TFRecordDataset('data/boxes/val.tfrecord').map(parse).cache().batch(40)

net = tf.keras.Sequential([
    tf.keras.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(16, 3, 2, activation='relu'),
    tf.keras.layers.Conv2D(32, 3, 2, activation='relu'),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(3, activation='softplus'),
])
net.compile(tf.keras.optimizers.Adam(5e-3), loss='poisson', metrics=['mae'])
net.fit(train, validation_data=val, epochs=8, verbose=2)
base = tf.reduce_mean([tf.reduce_mean(abs(y - tf.reduce_mean(y, 0))) for _, y in val])
print('mae of the constant', float(base))
