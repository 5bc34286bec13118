import tensorflow as tf

# images are serialized tensors; parse_tensor forgets the shape, ensure_shape brings it back
F = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


class Net(tf.keras.Model):
    def __init__(self, k=3):
        super().__init__()
        self.blocks = [tf.keras.layers.Conv2D(c, 3, 2, activation="relu") for c in (16, 32)]
        self.pool = tf.keras.layers.GlobalMaxPooling2D()
        self.drop = tf.keras.layers.Dropout(0.1)
        self.fc = tf.keras.layers.Dense(k)

    def call(self, x, training=None):
        x = tf.cast(x, tf.float32) / 255.0
        for b in self.blocks:
            x = b(x)
        return self.fc(self.drop(self.pool(x), training=training))


def load(split):
    def parse(r):
        e = tf.io.parse_single_example(r, F)
        x = tf.ensure_shape(tf.io.parse_tensor(e["image"], out_type=tf.uint8), (24, 24, 3))
        return x, e["label"]
    return tf.data.TFRecordDataset(f"data/tensors/{split}.tfrecord").map(parse)


train = load("train").cache().shuffle(300).batch(20)
val = load("val").batch(60)
net = Net()
net.compile(optimizer=tf.keras.optimizers.Adam(3e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
net.fit(train, validation_data=val, epochs=6, verbose=2)

# inference by hand: softmax only here, the head gives logits
for x, y in val:
    p = tf.nn.softmax(net(x, training=False))
    conf = tf.reduce_max(p, -1)
    print("mean confidence", float(tf.reduce_mean(conf)), "acc", float(tf.reduce_mean(tf.cast(tf.argmax(p, -1) == y, tf.float32))))
