# data: reviews
import re, string
import tensorflow as tf
from tensorflow.keras import layers, losses

feats = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
def get(ex):
    r = tf.io.parse_single_example(ex, feats)
    return r["text"], r["label"]
raw_train_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("reviews/train*.tfrecord")).map(get).batch(32)
raw_val_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("reviews/val*.tfrecord")).map(get).batch(32)

def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    return tf.strings.regex_replace(lowercase, "[%s]" % re.escape(string.punctuation), "")

max_features, sequence_length = 1000, 40
vectorize_layer = layers.TextVectorization(standardize=custom_standardization, max_tokens=max_features, output_mode="int", output_sequence_length=sequence_length)
vectorize_layer.adapt(raw_train_ds.map(lambda x, y: x))

def vectorize_text(text, label):
    return vectorize_layer(tf.expand_dims(text, -1)), label

AUTOTUNE = tf.data.AUTOTUNE
train_ds = raw_train_ds.unbatch().shuffle(320).batch(32).map(vectorize_text).cache().prefetch(AUTOTUNE)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(AUTOTUNE)
model = tf.keras.Sequential([layers.Embedding(max_features, 16), layers.Dropout(0.2), layers.GlobalAveragePooling1D(), layers.Dropout(0.2), layers.Dense(1, activation="sigmoid")])
model.compile(loss=losses.BinaryCrossentropy(), optimizer="adam", metrics=[tf.metrics.BinaryAccuracy(threshold=0.5)])
history = model.fit(train_ds, validation_data=val_ds, epochs=10)
loss, accuracy = model.evaluate(val_ds)
export_model = tf.keras.Sequential([vectorize_layer, model, layers.Activation("linear")])
print(export_model.predict(tf.constant(["w1 w2 w3"])))
