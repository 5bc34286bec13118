import numpy as np
import tensorflow as tf

FOLDS = 3
N = 400


def parse(r):
    f = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                       'label': tf.io.FixedLenFeature([], tf.int64)})
    x = tf.reshape(tf.io.decode_jpeg(f['image'], channels=3), (32, 32, 3))
    return tf.cast(x, tf.float32) / 255., f['label']


data = tf.data.TFRecordDataset('data/shapes_pool/all.tfrecord').map(parse).cache().enumerate()


def without_index(i, xy):
    return xy


def fold_data(fold):
    train = data.filter(lambda i, xy: i % FOLDS != fold).map(without_index)
    valid = data.filter(lambda i, xy: i % FOLDS == fold).map(without_index)
    return train.shuffle(N).batch(32), valid.batch(64)


def new_model():
    m = tf.keras.Sequential([
        tf.keras.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu'),
        tf.keras.layers.Conv2D(24, 3, strides=2, activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(4, activation='softmax'),
    ])
    m.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])
    return m


scores = []
for fold in range(FOLDS):
    tf.keras.backend.clear_session()
    train, valid = fold_data(fold)
    model = new_model()
    h = model.fit(train, validation_data=valid, epochs=4, verbose=0)
    print(f'fold {fold} loss {h.history["loss"][0]:.3f} -> {h.history["loss"][-1]:.3f}')
    scores.append(h.history['val_accuracy'][-1])
print('CV accuracy %.3f +- %.3f' % (np.mean(scores), np.std(scores)))
