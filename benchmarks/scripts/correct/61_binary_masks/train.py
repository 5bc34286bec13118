import tensorflow as tf
from tensorflow.keras import layers as L

cfg = dict(img=48, bs=12, epochs=5, lr=3e-3)


def prepare(rec):
    d = tf.io.parse_single_example(rec, {'image': tf.io.FixedLenFeature([], tf.string),
                                         'mask': tf.io.FixedLenFeature([], tf.string)})
    img = tf.image.convert_image_dtype(tf.image.decode_png(d['image'], 3), tf.float32)
    # 1 and 2 are two kinds of cell; here only cell / no cell matters
    msk = tf.cast(tf.image.decode_png(d['mask'], 1) > 0, tf.float32)
    return tf.reshape(img, (cfg['img'], cfg['img'], 3)), tf.reshape(msk, (cfg['img'], cfg['img'], 1))


def rotate(img, msk):
    k = tf.random.uniform((), 0, 4, tf.int32)
    return tf.image.rot90(img, k), tf.image.rot90(msk, k)


ds_train = tf.data.TFRecordDataset('data/cells/train.tfrecord').map(prepare).cache().shuffle(120)
ds_train = ds_train.map(rotate, num_parallel_calls=tf.data.AUTOTUNE).batch(cfg['bs'])
ds_valid = tf.data.TFRecordDataset('data/cells/val.tfrecord').map(prepare).batch(cfg['bs'])


def dice_coef(y_true, y_pred):
    y_pred = tf.cast(y_pred > 0.5, tf.float32)
    inter = tf.reduce_sum(y_true * y_pred, axis=(1, 2, 3))
    total = tf.reduce_sum(y_true, axis=(1, 2, 3)) + tf.reduce_sum(y_pred, axis=(1, 2, 3))
    return (2. * inter + 1.) / (total + 1.)


inp = L.Input((cfg['img'], cfg['img'], 3))
x = L.Conv2D(16, 3, padding='same', activation='relu')(inp)
x = L.Conv2D(16, 3, padding='same', dilation_rate=2, activation='relu')(x)
x = L.Conv2D(16, 3, padding='same', dilation_rate=4, activation='relu')(x)
out = L.Conv2D(1, 1, activation='sigmoid')(x)
model = tf.keras.Model(inp, out)
model.compile(optimizer=tf.keras.optimizers.Adam(cfg['lr']), loss='binary_crossentropy', metrics=[dice_coef])
ckpt = tf.keras.callbacks.ModelCheckpoint('best.weights.h5', monitor='val_dice_coef', mode='max',
                                          save_best_only=True, save_weights_only=True)
model.fit(ds_train, validation_data=ds_valid, epochs=cfg['epochs'], callbacks=[ckpt], verbose=2)
model.load_weights('best.weights.h5')
model.evaluate(ds_valid, verbose=2)
