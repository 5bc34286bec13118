import tensorflow as tf

EPOCHS, BATCH, N = 12, 64, 320
STEPS = N // BATCH
PEAK = 0.2

schedule = tf.keras.optimizers.schedules.CosineDecay(
    initial_learning_rate=0.0,
    warmup_target=PEAK,
    warmup_steps=2 * STEPS,
    decay_steps=(EPOCHS - 2) * STEPS,
    alpha=1e-3,
)


def parse(r):
    e = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                       "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    x = tf.io.decode_jpeg(e["image/encoded"], channels=3)
    x = tf.image.per_image_standardization(tf.ensure_shape(x, (32, 32, 3)))
    return x, e["image/class/label"]


def ds(split):
    return tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/%s-*" % split)).map(parse, tf.data.AUTOTUNE).cache()


train = ds("train").shuffle(N).batch(BATCH).prefetch(tf.data.AUTOTUNE)
val = ds("val").batch(BATCH)


def conv_bn(x, f, s=1):
    x = tf.keras.layers.Conv2D(f, 3, strides=s, padding="same", use_bias=False)(x)
    return tf.keras.layers.ReLU()(tf.keras.layers.BatchNormalization(momentum=0.8)(x))


inp = tf.keras.Input((32, 32, 3))
x = conv_bn(inp, 12, 2)
x = conv_bn(x, 24, 2)
x = tf.keras.layers.GlobalAveragePooling2D()(x)
model = tf.keras.Model(inp, tf.keras.layers.Dense(4)(x))
model.compile(
    tf.keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True, weight_decay=1e-4),
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=EPOCHS, verbose=2)
