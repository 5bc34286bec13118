import tensorflow as tf

def parse(x):
    x = tf.io.parse_single_example(x, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'label': tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.parse_tensor(x['image'], out_type=tf.uint8)
    img = tf.ensure_shape(img, [24, 24, 3])
    return tf.image.convert_image_dtype(img, tf.float32), x['label']

dataset = tf.data.TFRecordDataset('data/tensors/train.tfrecord').map(parse).shuffle(300).batch(30)

model = tf.keras.Sequential([
    tf.keras.layers.Input((24, 24, 3)),
    tf.keras.layers.Conv2D(16, 3, activation='relu'),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(3)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()
acc_metric = tf.keras.metrics.SparseCategoricalAccuracy()
loss_metric = tf.keras.metrics.Mean()

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    acc_metric.update_state(y, logits)
    loss_metric.update_state(loss)

for epoch in range(4):
    for x, y in dataset:
        train_step(x, y)
    print('epoch %d loss %.4f acc %.4f' % (epoch, loss_metric.result(), acc_metric.result()))
    acc_metric.reset_states()
    loss_metric.reset_states()
