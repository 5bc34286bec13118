import tensorflow as tf

TRAIN_SIZE = 600
# The file lists all normal transactions first, so the buffer has to hold every row.
BUFFER = TRAIN_SIZE
BATCH = 50

schema = {
    'x': tf.io.FixedLenFeature([10], tf.float32),
    'amount': tf.io.FixedLenFeature([1], tf.float32),
    'label': tf.io.FixedLenFeature([1], tf.int64),
}


def parse(record):
    row = tf.io.parse_single_example(record, schema)
    features = tf.concat([row['x'], tf.math.log(row['amount'] + 1.0)], axis=0)
    return features, row['label']


train = tf.data.TFRecordDataset('data/fraud/train.tfrecord').map(parse).cache().shuffle(BUFFER).batch(BATCH)
val = tf.data.TFRecordDataset('data/fraud/val.tfrecord').map(parse).batch(200)

norm = tf.keras.layers.Normalization()
norm.adapt(train.map(lambda f, y: f))

model = tf.keras.Sequential([
    tf.keras.Input((11,)),
    norm,
    tf.keras.layers.Dense(16, activation='relu'),
    tf.keras.layers.Dropout(0.3),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-2),
    loss='binary_crossentropy',
    metrics=[tf.keras.metrics.Precision(name='precision'), tf.keras.metrics.Recall(name='recall'),
             tf.keras.metrics.AUC(curve='PR', name='prc')],
)
# 5 % fraud
model.fit(train, validation_data=val, epochs=6, class_weight={0: 0.53, 1: 10.0}, verbose=2)
