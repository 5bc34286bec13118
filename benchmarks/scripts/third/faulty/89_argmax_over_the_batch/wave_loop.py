import tensorflow as tf

BATCH = 4


def parse(record):
    row = tf.io.parse_single_example(record, {
        "audio": tf.io.FixedLenFeature([400], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    frames = tf.signal.frame(row["audio"], 40, 20)
    return frames, row["label"]


train = tf.data.TFRecordDataset("data/audio/train.tfrecord").map(parse).cache().shuffle(300).batch(BATCH)
val = tf.data.TFRecordDataset("data/audio/val.tfrecord").map(parse).batch(BATCH)

model = tf.keras.Sequential([
    tf.keras.layers.Input((19, 40)),
    tf.keras.layers.Conv1D(24, 1, activation="relu"),
    tf.keras.layers.GRU(16),
    tf.keras.layers.Dense(4),
])
optimizer = tf.keras.optimizers.Adam(3e-3)
cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(4):
    mean = tf.keras.metrics.Mean()
    for x, y in train:
        mean.update_state(train_step(x, y))
    correct = total = 0
    for x, y in val:
        predicted = tf.argmax(model(x, training=False), axis=0)
        correct += int(tf.reduce_sum(tf.cast(predicted == y, tf.int32)))
        total += len(y)
    print(f"epoch {epoch}: loss {mean.result():.3f}, accuracy {correct / total:.3f}")
