import tensorflow as tf


def parse(record):
    d = tf.io.parse_single_example(record, {
        'tokens': tf.io.VarLenFeature(tf.int64),
        'tags': tf.io.VarLenFeature(tf.int64),
    })
    return tf.sparse.to_dense(d['tokens']), tf.sparse.to_dense(d['tags'])


pad = dict(padded_shapes=([None], [None]),
           padding_values=(tf.constant(0, tf.int64), tf.constant(-1, tf.int64)))   # tag 0 is a real tag

train = tf.data.TFRecordDataset('data/tags/train.tfrecord').map(parse).shuffle(300).padded_batch(20, **pad)
val = tf.data.TFRecordDataset('data/tags/val.tfrecord').map(parse).padded_batch(20, **pad)


def masked_accuracy(y_true, y_pred):
    real = tf.cast(tf.not_equal(y_true, -1), tf.float32)
    hit = tf.cast(tf.equal(y_true, tf.cast(tf.argmax(y_pred, -1), y_true.dtype)), tf.float32)
    return tf.reduce_sum(hit * real, axis=-1) / tf.reduce_sum(real, axis=-1)


model = tf.keras.Sequential([
    tf.keras.Input((None,), dtype='int64'),
    tf.keras.layers.Embedding(500, 32),
    tf.keras.layers.Conv1D(32, 3, padding='same', activation='relu'),
    tf.keras.layers.Dense(5),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-2),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
    metrics=[masked_accuracy],
)
model.fit(train, validation_data=val, epochs=6, verbose=2)
