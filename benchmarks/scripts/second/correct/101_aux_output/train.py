import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers as L

FMT = {"image": tf.io.FixedLenFeature([], tf.string), "meta": tf.io.FixedLenFeature([4], tf.float32),
       "label": tf.io.FixedLenFeature([], tf.int64)}

def prepare(r):
    f = tf.io.parse_single_example(r, FMT)
    img = tf.reshape(tf.io.decode_jpeg(f["image"], channels=3), (32, 32, 3))
    y = f["label"]
    return (tf.cast(img, tf.float32), f["meta"]), (y, y)        # both heads learn the same label

train = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(prepare).cache().shuffle(300).batch(30)
val = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(prepare).batch(40)

img, meta = L.Input((32, 32, 3)), L.Input((4,))
v = L.Rescaling(1 / 127.5, offset=-1)(img)
v = L.Conv2D(16, 3, strides=2, activation="relu")(v)
v = L.Conv2D(24, 3, strides=2, activation="relu")(v)
v = L.GlobalMaxPooling2D()(v)
aux = L.Dense(3, activation="softmax", name="aux")(v)
z = L.Concatenate()([v, L.Dense(12, activation="relu")(meta)])
main = L.Dense(3, activation="softmax", name="main")(L.Dense(24, activation="relu")(z))

model = keras.Model([img, meta], [main, aux])
model.compile(keras.optimizers.Adam(3e-3),
              loss=["sparse_categorical_crossentropy", "sparse_categorical_crossentropy"],
              loss_weights=[1.0, 0.3],
              metrics=[["accuracy"], ["accuracy"]])
model.fit(train, validation_data=val, epochs=5, verbose=2)
