import tensorflow as tf
from tensorflow.keras import layers, models
from tensorflow.keras.callbacks import EarlyStopping

IMG_SIZE = 40

def preprocess(raw):
    feat = tf.io.parse_single_example(raw, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(feat['image'], channels=3)
    image = tf.image.resize_with_pad(image, IMG_SIZE, IMG_SIZE)
    return image / 255.0, feat['label']

train = tf.data.TFRecordDataset('data/sizes/train.tfrecord').map(preprocess).cache().shuffle(200).batch(20)
val = tf.data.TFRecordDataset('data/sizes/val.tfrecord').map(preprocess).cache().batch(20)

model = models.Sequential([
    layers.Input((IMG_SIZE, IMG_SIZE, 3)),
    layers.Conv2D(16, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(32, activation='relu'),
    layers.Dense(3, activation='softmax'),
])
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy', metrics=['accuracy'])

early_stop = EarlyStopping(monitor='val_accuracy', mode='min', patience=3, restore_best_weights=True, verbose=1)
model.fit(train, epochs=15, validation_data=val, callbacks=[early_stop])
print('final', model.evaluate(val, verbose=0))
