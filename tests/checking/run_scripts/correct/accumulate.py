# data: sensors
import tensorflow as tf
from tqdm import tqdm

ACC = 16
ds = tf.data.TFRecordDataset(tf.io.gfile.glob("sensors/train*")).map(lambda r: tf.io.parse_single_example(r, {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)})).map(lambda d: (d["x"], d["label"])).shuffle(560).repeat().batch(8)
model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(5)])
opt = tf.keras.optimizers.Adam(1e-3)
it = iter(ds)
grads = [tf.zeros_like(v) for v in model.trainable_variables]
step = 0
pbar = tqdm(total=640)
while step < 640:
    x, y = next(it)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True)))
    new = tape.gradient(loss, model.trainable_variables)
    grads = [g + n / ACC for g, n in zip(grads, new)]
    step += 1
    if step % ACC == 0:
        opt.apply_gradients(zip(grads, model.trainable_variables))
        grads = [tf.zeros_like(v) for v in model.trainable_variables]
    pbar.update(1)
