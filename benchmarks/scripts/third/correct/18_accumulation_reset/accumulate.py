import tensorflow as tf


class Accumulator:
    """Sums gradients of `every` small batches, then makes one step with their mean."""

    def __init__(self, optimizer, variables, every):
        self.optimizer, self.variables, self.every = optimizer, variables, every
        self.sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function
    def add(self, grads):
        for total, grad in zip(self.sums, grads):
            total.assign_add(grad / self.every)
        self.count.assign_add(1)
        if self.count % self.every == 0:
            self.flush()

    def flush(self):
        self.optimizer.apply_gradients(zip(self.sums, self.variables))
        for total in self.sums:
            total.assign(tf.zeros_like(total))
