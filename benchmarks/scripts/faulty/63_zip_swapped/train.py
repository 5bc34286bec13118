import tensorflow as tf
from tensorflow.keras import layers

SIZE = 64


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "bbox": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(f["image"], channels=3)
    img = tf.reshape(img, [SIZE, SIZE, 3])
    return tf.cast(img, tf.float32) / 255.0, f["bbox"], f["label"]


ds = tf.data.TFRecordDataset("data/single_box/train.tfrecord").map(parse).shuffle(200).batch(20)

inp = layers.Input((SIZE, SIZE, 3))
h = layers.Conv2D(16, 3, strides=2, activation="relu")(inp)
h = layers.Conv2D(32, 3, strides=2, activation="relu")(h)
h = layers.Flatten()(h)
h = layers.Dense(32, activation="relu")(h)
box = layers.Dense(4, activation="sigmoid", name="box")(h)
cls = layers.Dense(3, name="cls")(h)
detector = tf.keras.Model(inp, [box, cls])

optimizer = tf.keras.optimizers.Adam(1e-3)
huber = tf.keras.losses.Huber()
ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(images, boxes, labels):
    with tf.GradientTape() as tape:
        pred_box, pred_cls = detector(images, training=True)
        loss = 10.0 * huber(boxes, pred_box) + ce(labels, pred_cls)
    grads = tape.gradient(loss, detector.trainable_variables)
    optimizer.apply_gradients(zip(detector.trainable_variables, grads))
    return loss


for epoch in range(4):
    for images, boxes, labels in ds:
        loss = step(images, boxes, labels)
    print("epoch", epoch, float(loss))
