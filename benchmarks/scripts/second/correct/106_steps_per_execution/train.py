import tensorflow as tf

B = 20
STEPS = 400 // B


def parse(batch):
    f = tf.io.parse_example(batch, {"features": tf.io.FixedLenFeature([], tf.string),
                                    "label": tf.io.FixedLenFeature([], tf.int64)})
    x = tf.io.decode_raw(f["features"], tf.float32, fixed_length=64)       # 16 floats
    return tf.ensure_shape(x, [None, 16]), f["label"]


train = (tf.data.TFRecordDataset("data/vectors/train.tfrecord").cache()
         .shuffle(400).batch(B).map(parse).repeat().prefetch(tf.data.AUTOTUNE))
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").batch(50).map(parse).cache()

model = tf.keras.Sequential([
    tf.keras.Input((16,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(3),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(
        tf.keras.optimizers.schedules.ExponentialDecay(1e-2, decay_steps=STEPS, decay_rate=0.7)),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    steps_per_execution=5,          # divides the 20 steps of an epoch
    jit_compile=False,
)
model.fit(train, steps_per_epoch=STEPS, epochs=4, validation_data=val, verbose=2)
