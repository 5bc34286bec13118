import tensorflow as tf
from tensorflow.keras.applications.resnet50 import ResNet50, preprocess_input

N = 5


def parse(example):
    f = tf.io.parse_single_example(example, {
        'image': tf.io.FixedLenFeature((), tf.string),
        'label': tf.io.FixedLenFeature((), tf.int64)})
    img = tf.cast(tf.io.decode_jpeg(f['image'], channels=3), tf.float32)
    img.set_shape([64, 64, 3])
    return img, tf.one_hot(f['label'] - 1, N)


def prep(images, labels):
    # resnet50.preprocess_input wants RGB 0..255 and makes BGR minus the ImageNet mean
    return preprocess_input(images), labels


train = tf.data.TFRecordDataset(['data/flowers/train-00000-of-00002.tfrecord',
                                 'data/flowers/train-00001-of-00002.tfrecord'])
train = train.map(parse).shuffle(250).batch(16).map(prep).prefetch(1)
valid = tf.data.TFRecordDataset(['data/flowers/val-00000-of-00001.tfrecord']).map(parse).batch(16).map(prep)

backbone = ResNet50(weights='imagenet', include_top=False, pooling='avg', input_shape=(64, 64, 3))
for layer in backbone.layers:
    layer.trainable = False

model = tf.keras.Sequential([
    backbone,
    tf.keras.layers.Dense(64, activation='relu'),
    tf.keras.layers.Dense(N, activation='softmax'),
])
model.compile(optimizer='adam', loss='categorical_crossentropy', metrics=['accuracy'])
model.fit(train, validation_data=valid, epochs=2, verbose=2)
