import tensorflow as tf

feature_description = {
    'features': tf.io.FixedLenFeature([], tf.string),
    'label': tf.io.FixedLenFeature([], tf.int64),
}


def _parse(example_proto):
    ex = tf.io.parse_single_example(example_proto, feature_description)
    x = tf.io.decode_raw(ex['features'], tf.float32)
    x = tf.reshape(x, (16,))
    return x, ex['label']


ds_train = tf.data.TFRecordDataset('data/vectors/train.tfrecord').map(_parse).shuffle(400).batch(16)
ds_val = tf.data.TFRecordDataset('data/vectors/val.tfrecord').map(_parse).batch(16)

model = tf.keras.Sequential([
    tf.keras.layers.Input((16,)),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(3, activation='softmax'),
])

lr = tf.keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=25, decay_rate=0.95)
model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=lr),
              loss='sparse_categorical_crossentropy',
              metrics=['accuracy'])

callbacks = [
    tf.keras.callbacks.EarlyStopping(monitor='val_loss', patience=4, restore_best_weights=True),
    tf.keras.callbacks.ReduceLROnPlateau(monitor='val_accuracy', factor=0.5, patience=2),
]
model.fit(ds_train, validation_data=ds_val, epochs=12, callbacks=callbacks, verbose=2)
model.evaluate(ds_val, verbose=2)
