from absl import app, flags
import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", "data/vectors", "folder with train/val tfrecords")
flags.DEFINE_integer("batch_size", 40, "")
flags.DEFINE_integer("epochs", 3, "")
flags.DEFINE_float("lr", 3e-3, "learning rate")

N_FEATURES = 16


def parse(serialized):
    ex = tf.io.parse_single_example(serialized, {
        "features": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    feats = tf.io.decode_raw(ex["features"], tf.int32)
    feats = tf.cast(tf.reshape(feats, [N_FEATURES]), tf.float32)
    return feats, ex["label"]


def input_fn(split):
    ds = tf.data.TFRecordDataset(f"{FLAGS.data_dir}/{split}.tfrecord")
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if split == "train":
        ds = ds.shuffle(400)
    return ds.batch(FLAGS.batch_size).prefetch(tf.data.AUTOTUNE)


def main(_):
    model = tf.keras.Sequential([
        tf.keras.Input((N_FEATURES,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(3),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(FLAGS.lr),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy("acc")],
    )
    model.fit(input_fn("train"), validation_data=input_fn("val"), epochs=FLAGS.epochs, verbose=2)


if __name__ == "__main__":
    app.run(main)
