"""Curriculum: start with short texts, then let the longer ones in. Validation is always on all lengths."""
import tensorflow as tf

STAGES = [(15, 2), (25, 2), (40, 3)]         # (longest text, epochs)
TRAIN = sorted(tf.io.gfile.glob("data/tokens/train-*.tfrecord"))
VAL = sorted(tf.io.gfile.glob("data/tokens/val-*.tfrecord"))


def parse(r):
    e = tf.io.parse_single_example(
        r, {"tokens": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.sparse.to_dense(e["tokens"]), e["label"]


def dataset(files, longest=None, training=False):
    ds = tf.data.TFRecordDataset(files).map(parse)
    if longest is not None:
        ds = ds.filter(lambda t, _: tf.size(t) <= longest)
    if training:
        ds = ds.shuffle(400)
    return ds.padded_batch(20, padded_shapes=([None], [])).prefetch(1)


model = tf.keras.Sequential([
    tf.keras.Input((None,), dtype="int64"),
    tf.keras.layers.Embedding(2000, 16, mask_zero=True),
    tf.keras.layers.GRU(24),
    tf.keras.layers.Dense(4),
])
model.compile(
    tf.keras.optimizers.Adam(1e-2),
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
epoch = 0
for longest, epochs in STAGES:
    print(f"--- texts of at most {longest} tokens")
    model.fit(
        dataset(TRAIN, longest, training=True),
        validation_data=dataset(VAL),
        initial_epoch=epoch,
        epochs=epoch + epochs,
        verbose=2,
    )
    epoch += epochs
