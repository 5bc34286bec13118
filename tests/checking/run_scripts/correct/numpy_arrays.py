# data: sensors
import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn.metrics import classification_report, confusion_matrix
from sklearn.model_selection import train_test_split

xs, ys = [], []
for raw in tf.data.TFRecordDataset(["sensors/train-00000-of-00002.tfrecord", "sensors/train-00001-of-00002.tfrecord"]).as_numpy_iterator():
    example = tf.train.Example.FromString(raw)
    xs.append(example.features.feature["x"].float_list.value)
    ys.append(example.features.feature["label"].int64_list.value[0])
df = pd.DataFrame(np.array(xs, "float32"))
df["label"] = ys
print(df.describe())
X_train, X_test, y_train, y_test = train_test_split(df.drop(columns="label").to_numpy("float32"), df["label"].to_numpy(), test_size=0.2, stratify=df["label"], random_state=0)
mean, std = X_train.mean(0), X_train.std(0)
X_train, X_test = (X_train - mean) / std, (X_test - mean) / std
model = tf.keras.Sequential([tf.keras.layers.Input((16,)), tf.keras.layers.Dense(24, activation="relu"), tf.keras.layers.Dense(5, activation="softmax")])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(X_train, y_train, validation_split=0.1, epochs=20, batch_size=16, verbose=0)
pred = model.predict(X_test).argmax(axis=1)
print(confusion_matrix(y_test, pred))
print(classification_report(y_test, pred, zero_division=0))
