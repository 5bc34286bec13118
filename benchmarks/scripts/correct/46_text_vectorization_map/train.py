import re
import string

import tensorflow as tf
from tensorflow.keras import layers

batch_size = 32
max_features = 500
sequence_length = 32


def parse(record):
    example = tf.io.parse_single_example(record, {
        'text': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    return example['text'], example['label']


raw_train_ds = tf.data.TFRecordDataset('data/reviews/train.tfrecord').map(parse).shuffle(400, seed=42).batch(batch_size)
raw_val_ds = tf.data.TFRecordDataset('data/reviews/val.tfrecord').map(parse).batch(batch_size)


def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    stripped_html = tf.strings.regex_replace(lowercase, '<br />', ' ')
    return tf.strings.regex_replace(stripped_html, '[%s]' % re.escape(string.punctuation), '')


vectorize_layer = layers.TextVectorization(
    standardize=custom_standardization,
    max_tokens=max_features,
    output_mode='int',
    output_sequence_length=sequence_length)
vectorize_layer.adapt(raw_train_ds.map(lambda text, label: text))


def vectorize_text(text, label):
    text = tf.expand_dims(text, -1)
    return vectorize_layer(text), label


AUTOTUNE = tf.data.AUTOTUNE
# no cache before the shuffle above: each epoch draws a new order
train_ds = raw_train_ds.map(vectorize_text).prefetch(AUTOTUNE)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(AUTOTUNE)

model = tf.keras.Sequential([
    layers.Embedding(max_features, 16),
    layers.Dropout(0.2),
    layers.GlobalAveragePooling1D(),
    layers.Dropout(0.2),
    layers.Dense(1, activation='sigmoid')])
model.compile(loss=tf.keras.losses.BinaryCrossentropy(),
              optimizer=tf.keras.optimizers.Adam(1e-2),
              metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.5)])
model.fit(train_ds, validation_data=val_ds, epochs=8, verbose=2)

# export with the text processing inside
export_model = tf.keras.Sequential([tf.keras.Input((1,), dtype='string'), vectorize_layer, model])
print(export_model.predict(tf.constant([['A superb and moving film'], ['Dull, tedious plot']]), verbose=0))
