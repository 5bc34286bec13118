import tensorflow as tf
from tensorflow.keras import layers

BUFFER_SIZE, BATCH_SIZE, NOISE_DIM, EPOCHS = 500, 50, 32, 4


def load(record):
    ex = tf.io.parse_single_example(record, {'image_raw': tf.io.FixedLenFeature([], tf.string)})
    img = tf.reshape(tf.io.decode_raw(ex['image_raw'], tf.uint8), [28, 28, 1])
    return (tf.cast(img, tf.float32) - 127.5) / 127.5  # the generator ends in tanh


files = tf.io.gfile.glob('data/digits/train-*.tfrecord')
train_dataset = tf.data.TFRecordDataset(files).map(load).cache().shuffle(BUFFER_SIZE).batch(BATCH_SIZE)


def make_generator():
    return tf.keras.Sequential([
        layers.Input((NOISE_DIM,)),
        layers.Dense(7 * 7 * 32, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Reshape((7, 7, 32)),
        layers.Conv2DTranspose(16, 5, strides=2, padding='same', use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 5, strides=2, padding='same', activation='tanh'),
    ])


def make_discriminator():
    return tf.keras.Sequential([
        layers.Input((28, 28, 1)),
        layers.Conv2D(16, 5, strides=2, padding='same'),
        layers.LeakyReLU(),
        layers.Dropout(0.3),
        layers.Conv2D(32, 5, strides=2, padding='same'),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dense(1),
    ])


generator, discriminator = make_generator(), make_discriminator()
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = tf.keras.optimizers.Adam(1e-4)
discriminator_optimizer = tf.keras.optimizers.Adam(1e-4)


def discriminator_loss(real_output, fake_output):
    return (cross_entropy(tf.ones_like(real_output), real_output)
            + cross_entropy(tf.zeros_like(fake_output), fake_output))


def generator_loss(fake_output):
    return cross_entropy(tf.ones_like(fake_output), fake_output)


@tf.function
def train_step(images):
    noise = tf.random.normal([tf.shape(images)[0], NOISE_DIM])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated = generator(noise, training=True)
        real_output = discriminator(images, training=True)
        fake_output = discriminator(generated, training=True)
        gen_loss = generator_loss(fake_output)
        disc_loss = discriminator_loss(real_output, fake_output)
    gen_grads = gen_tape.gradient(gen_loss, generator.trainable_variables)
    disc_grads = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply_gradients(zip(gen_grads, generator.trainable_variables))
    discriminator_optimizer.apply_gradients(zip(disc_grads, discriminator.trainable_variables))
    return gen_loss, disc_loss


for epoch in range(EPOCHS):
    g, d = tf.keras.metrics.Mean(), tf.keras.metrics.Mean()
    for batch in train_dataset:
        gen_loss, disc_loss = train_step(batch)
        g.update_state(gen_loss)
        d.update_state(disc_loss)
    print(f'epoch {epoch + 1} generator loss {g.result():.3f} discriminator loss {d.result():.3f}')
