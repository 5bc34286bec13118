import tensorflow as tf


class Tagger(tf.keras.Model):
    def __init__(self, vocab_size, num_tags, hidden):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(vocab_size, hidden, mask_zero=True)
        self.rnn = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(hidden, return_sequences=True))
        self.out = tf.keras.layers.Dense(num_tags)

    def call(self, tokens, training=False):
        return self.out(self.rnn(self.embed(tokens), training=training))


def masked_cross_entropy(tokens, tags, logits):
    """Mean over real tokens; padding has tag 0 as well, so the mask comes from the tokens."""
    mask = tf.cast(tokens > 0, logits.dtype)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)
