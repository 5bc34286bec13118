import os
import tensorflow as tf
from tensorflow.keras.callbacks import ModelCheckpoint, EarlyStopping, ReduceLROnPlateau

CKPT = os.path.join('.', 'best_model.h5')

def _parse(x):
    x = tf.io.parse_single_example(x, {'image_raw': tf.io.FixedLenFeature([], tf.string),
                                       'label': tf.io.FixedLenFeature([], tf.int64)})
    img = tf.reshape(tf.io.decode_raw(x['image_raw'], tf.uint8), [28, 28, 1])
    return tf.cast(img, tf.float32) / 255., x['label']

def get(split):
    return tf.data.TFRecordDataset(tf.io.gfile.glob('data/digits/' + split + '*')).map(_parse)

train, test = get('train').shuffle(500).batch(50), get('test').batch(50)

model = tf.keras.Sequential([
    tf.keras.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation='softmax')])
model.compile('adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])

callbacks = [
    ModelCheckpoint(CKPT, monitor='val_accuracy', save_best_only=True, save_weights_only=True, mode='max'),
    EarlyStopping(monitor='val_loss', patience=3),
    ReduceLROnPlateau(monitor='val_loss', factor=0.5, patience=2, min_lr=1e-5),
]
model.fit(train, validation_data=test, epochs=5, callbacks=callbacks)
model.load_weights(CKPT)
print(model.evaluate(test))
