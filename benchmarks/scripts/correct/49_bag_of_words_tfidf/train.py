import tensorflow as tf

features = {'text': tf.io.FixedLenFeature([1], tf.string), 'label': tf.io.FixedLenFeature([1], tf.int64)}


def parse(batch):
    d = tf.io.parse_example(batch, features)
    return d['text'], d['label']


train_text = tf.data.TFRecordDataset('data/reviews/train.tfrecord').shuffle(400).batch(40).map(parse)
val_text = tf.data.TFRecordDataset('data/reviews/val.tfrecord').batch(40).map(parse)

tfidf = tf.keras.layers.TextVectorization(max_tokens=200, output_mode='tf_idf', pad_to_max_tokens=True)
tfidf.adapt(train_text.map(lambda t, y: t))

model = tf.keras.Sequential([
    tf.keras.Input((200,)),
    tf.keras.layers.Dense(1, activation='sigmoid', kernel_regularizer='l2'),
])
model.compile(optimizer=tf.keras.optimizers.Adam(0.02), loss='binary_crossentropy', metrics=['accuracy'])

vectorize = lambda t, y: (tfidf(t), y)
model.fit(train_text.map(vectorize).prefetch(1), validation_data=val_text.map(vectorize), epochs=6, verbose=2)
