import keras
import tensorflow as tf
from keras import layers
from keras.applications import EfficientNetB0

IMG_SIZE = 64
NUM_CLASSES = 3

table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(["bird", "cat", "dog"], tf.range(NUM_CLASSES, dtype=tf.int64)),
    default_value=-1,
)


def parse(serialized):
    parsed = tf.io.parse_single_example(
        serialized,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    # EfficientNet takes pixels of 0..255: no division here.
    image = tf.image.resize(tf.io.decode_png(parsed["image"], channels=3), (IMG_SIZE, IMG_SIZE))
    return image, tf.one_hot(table.lookup(parsed["label"]), NUM_CLASSES)


ds_train = tf.data.TFRecordDataset(tf.io.gfile.glob("data/animals/train-*.tfrecord")).map(parse).cache()
ds_train = ds_train.shuffle(240).batch(batch_size=24, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
ds_val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/animals/val-*.tfrecord")).map(parse).batch(batch_size=24)

img_augmentation = keras.Sequential([layers.RandomRotation(factor=0.05), layers.RandomFlip()])


def build_model(num_classes):
    inputs = layers.Input(shape=(IMG_SIZE, IMG_SIZE, 3))
    x = img_augmentation(inputs)
    backbone = EfficientNetB0(include_top=False, input_tensor=x, weights="imagenet")
    backbone.trainable = False

    x = layers.GlobalAveragePooling2D(name="avg_pool")(backbone.output)
    x = layers.BatchNormalization()(x)
    x = layers.Dropout(0.2, name="top_dropout")(x)
    outputs = layers.Dense(num_classes, activation="softmax", name="pred")(x)
    model = keras.Model(inputs, outputs, name="EfficientNet")
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=1e-2), loss="categorical_crossentropy", metrics=["accuracy"]
    )
    return model


model = build_model(NUM_CLASSES)
model.fit(ds_train, epochs=2, validation_data=ds_val, verbose=2)
