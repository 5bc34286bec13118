import tensorflow as tf
from tensorflow.keras.layers import Conv2D, Conv2DTranspose, Input
from tensorflow.keras.models import Model

NOISE = 0.2


def load(path):
    def parse(r):
        png = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
        im = tf.image.convert_image_dtype(tf.io.decode_png(png, channels=3), tf.float32)
        return tf.ensure_shape(im, [48, 48, 3])
    return tf.data.TFRecordDataset(path).map(parse).cache()


def corrupt(clean):
    noisy = clean + tf.random.normal(tf.shape(clean), stddev=NOISE)
    return tf.clip_by_value(noisy, 0., 1.), clean


def corrupt_fixed(i, clean):
    # the same noise in every epoch, so that validation numbers can be compared
    noise = tf.random.stateless_normal(tf.shape(clean), seed=tf.stack([i, 7]), stddev=NOISE)
    return tf.clip_by_value(clean + noise, 0., 1.), clean


train = load("data/cells/train.tfrecord").shuffle(120).map(corrupt).batch(12).prefetch(1)
val = load("data/cells/val.tfrecord").enumerate().map(corrupt_fixed).batch(20)

inp = Input((48, 48, 3))
x = Conv2D(16, 3, padding="same", activation="relu")(inp)
x = Conv2D(24, 3, strides=2, padding="same", activation="relu")(x)
x = Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(x)
out = Conv2D(3, 3, padding="same", activation="sigmoid")(x)
model = Model(inp, out)


def psnr(y_true, y_pred):
    return tf.image.psnr(y_true, y_pred, max_val=1.0)


model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss="mse", metrics=[psnr])
model.fit(train, validation_data=val, epochs=4, verbose=2)
print("PSNR of the noisy pictures:", float(tf.reduce_mean(tf.concat([psnr(c, n) for n, c in val], 0))))
