import tensorflow as tf

FEATURE_SPEC = {
    'tokens': tf.io.VarLenFeature(tf.int64),
    'label': tf.io.FixedLenFeature([], tf.int64),
}

def parse(serialized):
    feats = tf.io.parse_single_example(serialized, FEATURE_SPEC)
    return feats['tokens'], feats['label']

def input_fn(pattern, batch_size, shuffle):
    ds = tf.data.Dataset.list_files(pattern, shuffle=shuffle)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=2, block_length=16)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(400)
    ds = ds.padded_batch(batch_size, padded_shapes=([None], []))
    return ds.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Embedding(2000, 16, mask_zero=True),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(16, activation='relu'),
    tf.keras.layers.Dense(4, activation='softmax'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss='sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(input_fn('data/tokens/train-*', 32, True), validation_data=input_fn('data/tokens/val-*', 32, False), epochs=6)
