import tensorflow as tf

features = {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)}


def _parse(s):
    ex = tf.io.parse_single_example(s, features)
    return ex["x"], ex["price"] / 1e5


dataset = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(_parse).shuffle(500).batch(25)

model = tf.keras.Sequential([
    tf.keras.Input(shape=(8,)),
    tf.keras.layers.Dense(32, activation="tanh"),
    tf.keras.layers.Dense(1),
])
mse = tf.keras.losses.MeanSquaredError()
optimizer = tf.keras.optimizers.Adam(learning_rate=0.005)


def train_on_batch(x, y):
    y_pred = model(x, training=True)
    with tf.GradientTape() as tape:
        loss = mse(y, y_pred)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(10):
    losses = [float(train_on_batch(x, y)) for x, y in dataset]
    print("epoch {:2d}  mse {:.3f}".format(epoch, sum(losses) / len(losses)))
