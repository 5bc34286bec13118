import tensorflow as tf

EPOCHS = 6


def features(record):
    row = tf.io.parse_single_example(record, {
        "audio": tf.io.FixedLenFeature([400], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    spec = tf.abs(tf.signal.stft(row["audio"], frame_length=64, frame_step=32))
    return tf.math.log1p(spec), row["label"]


train = tf.data.TFRecordDataset("data/audio/train.tfrecord").map(features).cache().shuffle(300).batch(20)
val = tf.data.TFRecordDataset("data/audio/val.tfrecord").map(features).cache().batch(80)
shape = train.element_spec[0].shape[1:]

model = tf.keras.Sequential([
    tf.keras.layers.Input(shape),
    tf.keras.layers.GRU(24),
    tf.keras.layers.Dense(4, activation="softmax"),
])
schedule = tf.keras.optimizers.schedules.CosineDecay(5e-3, decay_steps=EPOCHS * 15)
best = 0.0
for epoch in range(EPOCHS):
    model.compile(
        optimizer=tf.keras.optimizers.Adam(schedule),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(train, epochs=1, verbose=0)
    _, acc = model.evaluate(val, verbose=0)
    print(f"epoch {epoch}: {acc:.3f}")
    if acc > best:
        best = acc
        model.save_weights("best.weights.h5")
print("steps taken by the optimiser:", int(model.optimizer.iterations))
