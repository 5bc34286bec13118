# Quick look at the adult records: what is in them, are the splits alike, what is the base rate?
import collections

import numpy as np
import pandas as pd
import tensorflow as tf

pd.set_option("display.width", 120)


def frame(pattern):
    rows = []
    for raw in tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)):
        ex = tf.train.Example()
        ex.ParseFromString(raw.numpy())
        row = {}
        for key, feat in ex.features.feature.items():
            values = getattr(feat, feat.WhichOneof("kind")).value
            assert len(values) == 1, (key, len(values))
            row[key] = values[0].decode() if isinstance(values[0], bytes) else values[0]
        rows.append(row)
    return pd.DataFrame(rows)


train, val = frame("data/adult/train-*"), frame("data/adult/val-*")
print(train.describe().round(2))
print(train["job"].value_counts(normalize=True).round(3))
print("base rate train %.3f val %.3f" % (train.label.mean(), val.label.mean()))
print(train.groupby("label")[["age", "hours", "gain", "married"]].mean().round(2))
print("share of zero gain:", np.mean(train["gain"] == 0).round(3))
drift = {c: abs(train[c].mean() - val[c].mean()) / train[c].std() for c in ("age", "hours")}
print("drift in standard deviations:", {k: round(v, 3) for k, v in drift.items()})
print(collections.Counter(zip(train.job, train.label)).most_common(4))
