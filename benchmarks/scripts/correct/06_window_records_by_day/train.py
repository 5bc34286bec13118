"""Forecast the next 6 hours of temperature from the last 48 hours.

Windows of one station overlap, so whole stations go to one split.
"""
import os

import numpy as np
import tensorflow as tf

PAST, FUTURE = 48, 6
TRAIN_STATIONS = list(range(0, 12))
EVAL_STATIONS = list(range(12, 16))


def station_series(station):
    rng = np.random.default_rng(100 + station)
    hours = np.arange(24 * 20)
    temperature = 10 + 6 * np.sin(2 * np.pi * (hours - 6) / 24) + np.cumsum(rng.normal(0, 0.15, len(hours)))
    humidity = 70 - 1.5 * (temperature - 10) + rng.normal(0, 2, len(hours))
    return np.stack([temperature, humidity], axis=-1).astype(np.float32)


def write_station(station, directory):
    series = station_series(station)
    with tf.io.TFRecordWriter(os.path.join(directory, f"station_{station:03d}.tfrecord")) as out:
        for start in range(0, len(series) - PAST - FUTURE + 1, 3):
            past = series[start:start + PAST]
            future = series[start + PAST:start + PAST + FUTURE, 0]
            feature = {
                "past": tf.io.serialize_tensor(past).numpy(),
                "future": tf.io.serialize_tensor(future).numpy(),
            }
            out.write(tf.train.Example(features=tf.train.Features(feature={
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for key, value in feature.items()
            })).SerializeToString())


def read_window(record):
    spec = {"past": tf.io.FixedLenFeature([], tf.string), "future": tf.io.FixedLenFeature([], tf.string)}
    window = tf.io.parse_single_example(record, spec)
    past = tf.ensure_shape(tf.io.parse_tensor(window["past"], tf.float32), [PAST, 2])
    future = tf.ensure_shape(tf.io.parse_tensor(window["future"], tf.float32), [FUTURE])
    return past, future


def main():
    os.makedirs("stations", exist_ok=True)
    for station in TRAIN_STATIONS + EVAL_STATIONS:
        write_station(station, "stations")

    def files(stations):
        return [f"stations/station_{s:03d}.tfrecord" for s in stations]

    train = (
        tf.data.Dataset.from_tensor_slices(files(TRAIN_STATIONS))
        .shuffle(len(TRAIN_STATIONS))
        .interleave(tf.data.TFRecordDataset, cycle_length=len(TRAIN_STATIONS), deterministic=False)
        .map(read_window)
        .shuffle(512)
        .batch(64)
        .prefetch(tf.data.AUTOTUNE)
    )
    evaluation = tf.data.TFRecordDataset(files(EVAL_STATIONS)).map(read_window).batch(64)

    normalize = tf.keras.layers.Normalization(axis=-1)
    normalize.adapt(train.map(lambda past, _: past))

    past = tf.keras.Input((PAST, 2))
    x = normalize(past)
    x = tf.keras.layers.Conv1D(16, 5, padding="causal", activation="relu")(x)
    x = tf.keras.layers.Conv1D(16, 5, padding="causal", dilation_rate=4, activation="relu")(x)
    x = tf.keras.layers.Flatten()(x)
    delta = tf.keras.layers.Dense(FUTURE)(x)
    # predict the change from the last temperature seen
    last = tf.keras.layers.Lambda(lambda p: p[:, -1, :1])(past)
    model = tf.keras.Model(past, tf.keras.layers.Add()([last, delta]))
    model.compile("adam", loss=tf.keras.losses.Huber(), metrics=["mae"])
    model.fit(train, validation_data=evaluation, epochs=5, verbose=2)


if __name__ == "__main__":
    main()
