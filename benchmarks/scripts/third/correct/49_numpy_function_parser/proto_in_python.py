"""Parse with protobuf in Python (slow but debuggable), give the shapes back by hand."""
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)


def decode(raw):
    ex = tf.train.Example.FromString(raw)
    blob = ex.features.feature['features'].bytes_list.value[0]
    x = np.frombuffer(blob, dtype='<f4').copy()
    return x, np.int64(ex.features.feature['label'].int64_list.value[0])


def parse(record):
    x, y = tf.numpy_function(decode, [record], [tf.float32, tf.int64])
    x.set_shape([16])
    y.set_shape([])
    return x, y


def jitter(x, y):
    # numpy's generator is called for every element here, because numpy_function runs it each time
    noise = tf.numpy_function(lambda v: rng.normal(0, 0.1, v.shape).astype(np.float32), [x], tf.float32)
    return tf.ensure_shape(x + noise, [16]), y


train = tf.data.TFRecordDataset('data/vectors/train.tfrecord').map(parse).cache().map(jitter).shuffle(400).batch(32)
val = tf.data.TFRecordDataset('data/vectors/val.tfrecord').map(parse).batch(100)
model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(16, activation='relu'),
                             tf.keras.layers.Dense(3, activation='softmax')])
model.compile(tf.keras.optimizers.Adam(1e-2), 'sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(train, validation_data=val, epochs=5, verbose=2)
