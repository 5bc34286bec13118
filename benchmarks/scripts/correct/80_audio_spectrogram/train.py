import tensorflow as tf
from tensorflow.keras import layers

FILES = ['data/audio/train.tfrecord', 'data/audio/val.tfrecord']
# Both files hold clips of every speaker, so split by speaker instead.
HELD_OUT = tf.constant(['spk9', 'spk10', 'spk11'])


def parse(record):
    return tf.io.parse_single_example(record, {
        'audio': tf.io.FixedLenFeature([400], tf.float32),
        'label': tf.io.FixedLenFeature([], tf.int64),
        'speaker': tf.io.FixedLenFeature([], tf.string),
    })


def is_held_out(row):
    return tf.reduce_any(tf.equal(row['speaker'], HELD_OUT))


def to_spectrogram(row):
    spectrogram = tf.abs(tf.signal.stft(row['audio'], frame_length=64, frame_step=16))
    return spectrogram[..., tf.newaxis], row['label']


clips = tf.data.TFRecordDataset(FILES).map(parse)
train_ds = clips.filter(lambda r: not is_held_out(r)).map(to_spectrogram).cache()
val_ds = clips.filter(is_held_out).map(to_spectrogram).batch(32).cache()

norm_layer = layers.Normalization(axis=None)
norm_layer.adapt(train_ds.map(lambda spec, label: spec).batch(64))
input_shape = train_ds.element_spec[0].shape

model = tf.keras.models.Sequential([
    layers.Input(shape=input_shape),
    layers.Resizing(16, 32),
    norm_layer,
    layers.Conv2D(16, 3, activation='relu'),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(4),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=['accuracy'])
model.fit(train_ds.shuffle(400).batch(32).prefetch(tf.data.AUTOTUNE), validation_data=val_ds, epochs=6, verbose=2)
