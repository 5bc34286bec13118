import keras
import tensorflow as tf
from keras import layers, ops


def to_corners(box):
    cy, cx, h, w = ops.split(box, 4, axis=-1)
    return ops.concatenate([cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2], axis=-1)


def giou_loss(y_true, y_pred):
    """y_true: corners; y_pred: centre and size. Both in 0..1."""
    y_pred = to_corners(y_pred)
    t0, l0, b0, r0 = (y_true[:, i] for i in range(4))
    t1, l1, b1, r1 = (y_pred[:, i] for i in range(4))
    inter = ops.relu(ops.minimum(b0, b1) - ops.maximum(t0, t1)) * ops.relu(ops.minimum(r0, r1) - ops.maximum(l0, l1))
    union = (b0 - t0) * (r0 - l0) + (b1 - t1) * (r1 - l1) - inter
    hull = (ops.maximum(b0, b1) - ops.minimum(t0, t1)) * (ops.maximum(r0, r1) - ops.minimum(l0, l1))
    iou = inter / (union + 1e-7)
    return 1.0 - (iou - (hull - union) / (hull + 1e-7))


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "bbox": tf.io.FixedLenFeature([4], tf.float32),
    })
    image = tf.io.decode_jpeg(f["image"], channels=3)
    return tf.ensure_shape(image, (64, 64, 3)), f["bbox"]


train = tf.data.TFRecordDataset("data/single_box/train.tfrecord").map(parse).shuffle(200).batch(20)
val = tf.data.TFRecordDataset("data/single_box/val.tfrecord").map(parse).batch(50)

model = keras.Sequential([
    keras.Input((64, 64, 3), dtype="uint8"),
    layers.Rescaling(1 / 255.0),
    layers.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.229**2, 0.224**2, 0.225**2]),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(24, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(48, activation="relu"),
    layers.Dense(4, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=giou_loss)
model.fit(train, validation_data=val, epochs=6, verbose=2)
