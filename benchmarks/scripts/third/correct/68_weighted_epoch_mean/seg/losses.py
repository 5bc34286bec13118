import tensorflow as tf

WEIGHTS = tf.constant([0.4, 1.3, 1.3])


def pixel_loss(labels, logits):
    """Class-weighted cross-entropy, divided by the weights and not by the number of pixels."""
    per_pixel = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    weight = tf.gather(WEIGHTS, labels)
    return tf.reduce_sum(per_pixel * weight) / tf.reduce_sum(weight)
