import numpy as np
import tensorflow as tf
import tensorflow.keras.backend as K

try:
    tpu = tf.distribute.cluster_resolver.TPUClusterResolver()
    tf.config.experimental_connect_to_cluster(tpu)
    tf.tpu.experimental.initialize_tpu_system(tpu)
    strategy = tf.distribute.TPUStrategy(tpu)
except ValueError:
    print("no TPU, default strategy")
    strategy = tf.distribute.get_strategy()

AUTO = tf.data.AUTOTUNE
REPLICAS = strategy.num_replicas_in_sync
BATCH_SIZE = 32 * REPLICAS
GCS_PATH = "/kaggle/input/melanoma-32x32"
SEED = 42
EPOCHS = 5


def read_labeled(example):
    fmt = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "image_name": tf.io.FixedLenFeature([], tf.string),
        "target": tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_single_example(example, fmt)
    img = tf.image.decode_png(example["image"], channels=3)
    img = tf.reshape(tf.cast(img, tf.float32) / 255.0, [32, 32, 3])
    return img, example["target"]


def aug(img, target):
    img = tf.image.random_flip_left_right(img, seed=SEED)
    img = tf.image.random_flip_up_down(img)
    img = tf.image.random_saturation(img, 0.8, 1.2)
    return tf.clip_by_value(img, 0.0, 1.0), target


def get_dataset(files, augment=False, shuffle=False, repeat=False):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=AUTO)
    ds = ds.cache()
    if repeat:
        ds = ds.repeat()
    if shuffle:
        ds = ds.shuffle(1024, seed=SEED)
        opt = tf.data.Options()
        opt.deterministic = False
        ds = ds.with_options(opt)
    ds = ds.map(read_labeled, num_parallel_calls=AUTO)
    if augment:
        ds = ds.map(aug, num_parallel_calls=AUTO)
    return ds.batch(BATCH_SIZE).prefetch(AUTO)


def count_items(files):
    return sum(1 for f in files for _ in tf.data.TFRecordDataset(f))


def get_lr_callback(batch_size):
    lr_start, lr_max, lr_min, ramp, decay = 5e-4, 1e-4 * batch_size, 1e-4, 2, 0.8

    def lrfn(epoch):
        if epoch < ramp:
            return (lr_max - lr_start) / ramp * epoch + lr_start
        return (lr_max - lr_min) * decay ** (epoch - ramp) + lr_min

    return tf.keras.callbacks.LearningRateScheduler(lrfn, verbose=0)


train_files = tf.io.gfile.glob(GCS_PATH + "/train*.tfrecord")
valid_files = tf.io.gfile.glob(GCS_PATH + "/val*.tfrecord")

K.clear_session()
with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.BinaryCrossentropy(label_smoothing=0.05),
        metrics=[tf.keras.metrics.AUC(name="auc")],
    )

history = model.fit(
    get_dataset(train_files, augment=True, shuffle=True, repeat=True),
    epochs=EPOCHS,
    steps_per_epoch=count_items(train_files) // BATCH_SIZE,
    callbacks=[get_lr_callback(BATCH_SIZE)],
    validation_data=get_dataset(valid_files),
    verbose=2,
)
print("best val AUC", np.max(history.history["val_auc"]))
