import tensorflow as tf

KNOWN = ["bird", "cat", "dog"]
# index 0 is for words we have never seen, so there is one output more than there are animals
encode = tf.keras.layers.StringLookup(vocabulary=KNOWN)
decode = tf.keras.layers.StringLookup(vocabulary=KNOWN, invert=True)
OUTPUTS = encode.vocabulary_size()
