# data: digits_gz
import glob
import tensorflow as tf
from tensorflow import keras as K

files = sorted(glob.glob("./data/train-*.tfrecord.gz"))
assert files, "no data"

def to_gray(rec):
    f = tf.io.parse_single_example(rec, {"image": tf.io.FixedLenFeature((), tf.string)})
    im = tf.io.decode_png(f["image"], channels=1)
    im = tf.image.convert_image_dtype(im, tf.float32)
    im.set_shape([32, 32, 1])
    return im, im

ds = (tf.data.TFRecordDataset(files, compression_type="GZIP")
      .map(to_gray, tf.data.AUTOTUNE)
      .cache()
      .shuffle(600)
      .batch(32)
      .prefetch(tf.data.AUTOTUNE))

enc = K.Sequential([K.layers.Input((32, 32, 1)), K.layers.Flatten(), K.layers.Dense(32, activation="relu")])
dec = K.Sequential([K.layers.Input((32,)), K.layers.Dense(1024, activation="sigmoid"), K.layers.Reshape((32, 32, 1))])
ae = K.Model(enc.inputs, dec(enc.outputs[0]))
ae.compile("adam", "binary_crossentropy")
ae.fit(ds, epochs=3, verbose=2)
