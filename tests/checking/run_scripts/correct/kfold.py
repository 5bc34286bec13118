# data: sensors
import gc
import tensorflow as tf
import tensorflow.keras.backend as K
from sklearn.model_selection import KFold

files = sorted(tf.io.gfile.glob("../input/sensors-tfrec/*.tfrec"))
AUTO = tf.data.AUTOTUNE
def parse(e):
    e = tf.io.parse_single_example(e, {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)})
    return e["x"], e["label"]
def get_ds(files, shuffle=False, repeat=False, bs=32):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=AUTO)
    ds = ds.cache()
    if repeat:
        ds = ds.repeat()
    if shuffle:
        ds = ds.shuffle(1024 * 2)
    return ds.map(parse, num_parallel_calls=AUTO).batch(bs).prefetch(AUTO)
def build():
    inp = tf.keras.layers.Input((16,))
    x = tf.keras.layers.BatchNormalization()(inp)
    x = tf.keras.layers.Dense(32, activation="swish")(x)
    m = tf.keras.Model(inp, tf.keras.layers.Dense(5, activation="softmax")(x))
    m.compile(tf.keras.optimizers.Adam(learning_rate=2e-3), loss=tf.keras.losses.SparseCategoricalCrossentropy(), metrics=["acc"])
    return m
def lrfn(epoch):
    return 1e-3 * 0.9 ** epoch
scores = []
for fold, (tr, va) in enumerate(KFold(3, shuffle=True, random_state=1).split(files)):
    K.clear_session()
    model = build()
    trf, vaf = [files[i] for i in tr], [files[i] for i in va]
    hist = model.fit(get_ds(trf, True, True), steps_per_epoch=12, epochs=6, validation_data=get_ds(vaf), callbacks=[tf.keras.callbacks.LearningRateScheduler(lrfn), tf.keras.callbacks.ModelCheckpoint(f"fold{fold}.weights.h5", save_weights_only=True, save_best_only=True, monitor="val_acc", mode="max")])
    scores.append(max(hist.history["val_acc"]))
    gc.collect()
print("cv", sum(scores) / len(scores))
