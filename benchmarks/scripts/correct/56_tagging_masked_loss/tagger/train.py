import tensorflow as tf

from . import data
from .model import Tagger, masked_cross_entropy


def run(config):
    train = data.read(config.train_file, config.batch_size, shuffle_buffer=1000)
    dev = data.read(config.dev_file, config.batch_size)
    model = Tagger(config.vocab_size, config.num_tags, config.hidden)
    optimizer = tf.keras.optimizers.Adam(config.lr, global_clipnorm=5.0)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    @tf.function(reduce_retracing=True)
    def step(tokens, tags):
        with tf.GradientTape() as tape:
            loss = masked_cross_entropy(tokens, tags, model(tokens, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    for epoch in range(1, config.epochs + 1):
        losses = [float(step(tokens, tags)) for tokens, tags in train]
        accuracy.reset_state()
        for tokens, tags in dev:
            accuracy.update_state(tags, model(tokens), sample_weight=tf.cast(tokens > 0, tf.float32))
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, dev accuracy {float(accuracy.result()):.4f}")
