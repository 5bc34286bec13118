"""Teacher CNN -> student MLP. The teacher gets no gradient: it is outside of the tape."""
import tensorflow as tf

from data import digits

tf.keras.utils.set_random_seed(0)
T, ALPHA = 4.0, 0.7
L = tf.keras.layers
teacher = tf.keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(16, 3, 2, activation='relu'),
                               L.Conv2D(32, 3, 2, activation='relu'), L.Flatten(), L.Dense(10)])
student = tf.keras.Sequential([L.Input((28, 28, 1)), L.Flatten(), L.Dense(64, activation='relu'), L.Dense(10)])
train, test = digits('train', 25), digits('test', 100)

teacher.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=['accuracy'])
teacher.fit(train, epochs=6, verbose=0)
print('teacher', teacher.evaluate(test, verbose=0))

opt = tf.keras.optimizers.Adam(2e-3)
hard = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
soft = tf.keras.losses.KLDivergence()


@tf.function
def step(x, y):
    target = tf.nn.softmax(teacher(x, training=False) / T)
    with tf.GradientTape() as tape:
        logits = student(x, training=True)
        loss = (1 - ALPHA) * hard(y, logits) + ALPHA * T ** 2 * soft(target, tf.nn.softmax(logits / T))
    grads = tape.gradient(loss, student.trainable_variables)
    opt.apply_gradients(zip(grads, student.trainable_variables))
    return loss


for epoch in range(6):
    for x, y in train:
        loss = step(x, y)
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in test:
        acc.update_state(y, student(x))
    print(epoch, float(loss), float(acc.result()))
