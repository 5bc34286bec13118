"""
Title: Shape classification from TFRecords
Description: Preprocessing and augmentation live in the model.
"""
import keras
import tensorflow as tf
from keras import layers

"""
## Load the records
"""

image_size = (32, 32)
batch_size = 32
class_names = ["circle", "square", "cross", "stripes"]


def read_record(record):
    parsed = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature((), tf.string),
            "image/class/label": tf.io.FixedLenFeature((), tf.int64),
        },
    )
    image = tf.io.decode_image(parsed["image/encoded"], channels=3, expand_animations=False)
    image = tf.ensure_shape(image, (*image_size, 3))
    return image, parsed["image/class/label"]


def make_dataset(split, training=False):
    files = tf.io.gfile.glob(f"data/shapes/{split}-*.tfrecord")
    dataset = tf.data.TFRecordDataset(sorted(files), num_parallel_reads=2)
    dataset = dataset.map(read_record, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        dataset = dataset.shuffle(320, seed=1337)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


train_ds = make_dataset("train", training=True)
val_ds = make_dataset("val")

"""
## Build a model

The images are uint8 with values in `[0, 255]`; the `Rescaling` layer brings them to `[0, 1]`.
"""

augmentation = keras.Sequential(
    [layers.RandomFlip("horizontal"), layers.RandomTranslation(0.08, 0.08), layers.RandomRotation(0.03)],
    name="augmentation",
)


def make_model(input_shape, num_classes):
    inputs = keras.Input(shape=input_shape, dtype="uint8")
    x = layers.Rescaling(1.0 / 255)(inputs)
    x = augmentation(x)
    for size in [16, 32]:
        x = layers.Conv2D(size, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.25)(x)
    # No activation: the loss below works on logits.
    outputs = layers.Dense(num_classes, activation=None)(x)
    return keras.Model(inputs, outputs)


model = make_model(input_shape=image_size + (3,), num_classes=len(class_names))

"""
## Train the model
"""

callbacks = [keras.callbacks.ModelCheckpoint("save_at_{epoch}.keras")]
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
)
model.fit(train_ds, epochs=6, callbacks=callbacks, validation_data=val_ds, verbose=2)

"""
## Run inference on one image
"""

for images, labels in val_ds.take(1):
    scores = keras.ops.softmax(model.predict(images[:1], verbose=0)[0])
    print(class_names[int(keras.ops.argmax(scores))], "was", class_names[int(labels[0])])
