import tensorflow as tf


def soft_dice(y_true, y_pred, eps=1e-6):
    """Mean soft Dice over the classes. y_true: ids (B,H,W,1), y_pred: probabilities (B,H,W,C)."""
    classes = y_pred.shape[-1]
    onehot = tf.one_hot(tf.squeeze(tf.cast(y_true, tf.int32), -1), classes)
    axes = (1, 2)
    inter = tf.reduce_sum(onehot * y_pred, axes)
    total = tf.reduce_sum(onehot + y_pred, axes)
    return tf.reduce_mean((2 * inter + eps) / (total + eps), -1)


def dice_loss(y_true, y_pred):
    return soft_dice(y_true, y_pred)
