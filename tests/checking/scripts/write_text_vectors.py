"""Splits first, then fits, balances and writes sparse vectors."""

import pandas as pd
import tensorflow as tf
from imblearn.over_sampling import RandomOverSampler
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

table = pd.read_csv("reviews.csv")
train_text, test_text, train_y, test_y = train_test_split(
    table["text"], table["label"], test_size=0.2, stratify=table["label"], random_state=0
)

vectorizer = TfidfVectorizer(max_features=20_000)
train_x = vectorizer.fit_transform(train_text)
test_x = vectorizer.transform(test_text)
train_x, train_y = RandomOverSampler(random_state=0).fit_resample(train_x, train_y)


def int64s(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def write(path, rows, labels):
    rows = rows.tocsr()
    writer = tf.io.TFRecordWriter(path)
    for i, label in enumerate(labels):
        row = rows[i]
        feature = {
            "text/indices": int64s(row.indices),
            "text/values": floats(row.data),
            "label": int64s([int(label)]),
        }
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    writer.close()


write("train.tfrecord", train_x, train_y)
write("test.tfrecord", test_x, test_y)
