import tensorflow as tf
from tensorflow import keras

vectorizer = keras.layers.TextVectorization(max_tokens=300, output_mode="tf_idf", ngrams=None)


def parse(r):
    d = tf.io.parse_single_example(r, {"text": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([1], tf.int64)})
    return d["text"], 2.0 * tf.cast(d["label"], tf.float32) - 1.0      # {0, 1} -> {-1, 1}


train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse)
val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse)
vectorizer.adapt(train.map(lambda t, y: t).batch(100))
as_features = lambda t, y: (vectorizer(t), y)


def sign_accuracy(y_true, y_pred):
    return tf.cast(tf.equal(tf.sign(y_pred), y_true), tf.float32)


# a linear support vector machine
svm = keras.Sequential([
    keras.Input((vectorizer.vocabulary_size(),)),
    keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(1e-3)),
])
svm.compile(optimizer=keras.optimizers.SGD(0.05), loss=keras.losses.Hinge(), metrics=[sign_accuracy])
svm.fit(train.shuffle(400).batch(20).map(as_features), validation_data=val.batch(50).map(as_features), epochs=6, verbose=2)
