import tensorflow as tf
from tensorflow.keras import Input, Model
from tensorflow.keras.layers import Conv2D, Dense, Flatten, MaxPooling2D

BATCH = 20


def read_tfrecord(serialized_example):
    feature_description = {
        'image': tf.io.FixedLenFeature((), tf.string),
        'label': tf.io.FixedLenFeature((), tf.int64),
    }
    example = tf.io.parse_single_example(serialized_example, feature_description)
    image = tf.io.parse_tensor(example['image'], out_type=tf.float32)
    image = tf.ensure_shape(image, (24, 24, 3)) / 255.0
    return image, example['label']


tfrecord_dataset = tf.data.TFRecordDataset(["data/tensors/train.tfrecord"])
parsed_dataset = tfrecord_dataset.map(read_tfrecord).shuffle(300).batch(BATCH)
val_dataset = tf.data.TFRecordDataset(["data/tensors/val.tfrecord"]).map(read_tfrecord).batch(BATCH)

i = Input((24, 24, 3))
x = Conv2D(12, 3, activation='relu', padding='same')(i)
x = MaxPooling2D()(x)
x = Conv2D(24, 3, activation='relu', padding='same')(x)
x = MaxPooling2D()(x)
x = Flatten()(x)
o = Dense(3, activation='softmax')(x)
model = Model(i, o)

model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
model.fit(parsed_dataset, validation_data=val_dataset, epochs=4)
