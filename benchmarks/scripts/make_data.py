"""Write the small TFRecord datasets that the scripts beside this file train on.

    python make_data.py [ROOT]        # writes ROOT/data/<dataset>/..., ROOT is the working folder by default

Every run writes the same bytes of pixels, numbers and labels. Scripts run with ROOT as their working folder, so they
say "data/shapes/train-*.tfrecord". Every dataset can be learnt by a small network in a few epochs.

"shards" below means files named NAME-00000-of-0000N.tfrecord. Unless noted, records are shuffled, have one value per
feature, and are tf.train.Example. Counts are records.

shapes            train (4 shards, 320), val (2 shards, 80), test (1 shard, 40)
                  image/encoded: JPEG 32x32x3; image/class/label: int64 0..3; image/class/text: bytes (circle, square,
                  cross, stripes); image/height, image/width: int64; image/filename: bytes
shapes_sorted     train.tfrecord (320), val.tfrecord (80), both sorted by label
                  image: JPEG 32x32x3; label: int64 0..3
shapes_gzip       train.tfrecord.gz (320), val.tfrecord.gz (80), GZIP compressed
                  image: JPEG 32x32x3; label: int64 0..3
shapes_pool       all.tfrecord (400), not split
                  image: JPEG 32x32x3; label: int64 0..3
flowers           train (2 shards, 250), val (1 shard, 50); labels count from one
                  image: JPEG 64x64x3; label: int64 1..5
animals           train (2 shards, 240), val (1 shard, 60); the label is a word
                  image: PNG 48x48x3; label: bytes (bird, cat, dog)
cats_dogs         train.tfrecord (300, 90 % zeros), val.tfrecord (80, 90 % zeros)
                  image: PNG 32x32x3; target: int64 0..1; image_name: bytes
sizes             train.tfrecord (200), val.tfrecord (60); pictures of different sizes
                  image: JPEG, 40..64 pixels per side, 3 channels; height, width: int64; label: int64 0..2
digits            train (2 shards, 500), test (1 shard, 100)
                  image_raw: bytes, 28x28x1 uint8; label: int64 0..9; height, width, depth: int64
vectors           train.tfrecord (400), val.tfrecord (100)
                  features: bytes, 16 float32 little endian; label: int64 0..2
tensors           train.tfrecord (300), val.tfrecord (60)
                  image: bytes from tf.io.serialize_tensor, uint8 24x24x3; label: int64 0..2
adult             train (2 shards, 600), val (1 shard, 150); tabular, 25 % ones
                  age: int64; hours: float; gain: float (0..100000, mostly 0); job: bytes (clerk, farmer, sales,
                  tech); married: int64 0..1; label: int64 0..1
fraud             train.tfrecord (600, 5 % ones), val.tfrecord (200, 5 % ones), both sorted: zeros first
                  x: float[10]; amount: float; label: int64 0..1
reviews           train.tfrecord (400), val.tfrecord (100)
                  text: bytes (English words, 5..30 of them); label: int64 0..1
tokens            train (2 shards, 400), val (1 shard, 100)
                  tokens: int64, 5..40 of them, ids 1..1999; label: int64 0..3
tags              train.tfrecord (300), val.tfrecord (80); one tag per token
                  tokens: int64, 4..20 of them, ids 1..499; tags: int64, as many, 0..4
gestures          train.tfrecord (300), val.tfrecord (80); tf.train.SequenceExample
                  context: label: int64 0..4, length: int64; feature lists: frames: float[6] per step, 10..30 steps
cells             train.tfrecord (120), val.tfrecord (40); segmentation
                  image: PNG 48x48x3; mask: PNG 48x48x1 with values 0, 1, 2
scenes            train.tfrecord (300), val.tfrecord (80); several labels per image
                  image: JPEG 32x32x3; labels: int64, 0..4 of them, ids 0..5; multi_hot: int64[6]
houses            train.tfrecord (500), val.tfrecord (100); regression
                  x: float[8]; price: float (50000..900000)
power             train.tfrecord (800), val.tfrecord (200); one record per hour, in the order of time
                  hour: int64; load: float; temperature: float; wind: float
boxes             train.tfrecord (160), val.tfrecord (40); detection
                  image/encoded: JPEG 64x64x3; image/object/bbox/{xmin,ymin,xmax,ymax}: float 0..1, 1..4 of them;
                  image/object/class/label: int64 1..3, as many
single_box        train.tfrecord (200), val.tfrecord (50); one box per picture
                  image: JPEG 64x64x3; bbox: float[4] (ymin, xmin, ymax, xmax, 0..1); label: int64 0..2
ratings           train.tfrecord (800), val.tfrecord (200)
                  user_id: int64 0..99; movie_id: int64 0..49; rating: float 1..5
listings          train.tfrecord (300), val.tfrecord (80); a picture and numbers
                  image: JPEG 32x32x3; meta: float[4]; label: int64 0..2
audio             train.tfrecord (300), val.tfrecord (80)
                  audio: float[400] in -1..1; label: int64 0..3; speaker: bytes
tiny              train.tfrecord (20), val.tfrecord (8)
                  image: JPEG 32x32x3; label: int64 0..1
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

Value = bytes | str | int | float | Sequence | np.ndarray
Record = dict[str, Value]


def feature(value: Value) -> tf.train.Feature:
    values = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if values and isinstance(values[0], str | bytes):
        raw = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=raw))
    if values and isinstance(values[0], float | np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(record: Record) -> bytes:
    features = tf.train.Features(feature={name: feature(value) for name, value in record.items()})
    return tf.train.Example(features=features).SerializeToString(deterministic=True)


def write(path: Path, records: Iterable[bytes], compression: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def write_shards(folder: Path, name: str, records: Sequence[bytes], count: int) -> None:
    for i in range(count):
        write(folder / f"{name}-{i:05d}-of-{count:05d}.tfrecord", records[i::count])


def jpeg(pixels: np.ndarray) -> bytes:
    return tf.io.encode_jpeg(pixels, quality=92).numpy()


def png(pixels: np.ndarray) -> bytes:
    return tf.io.encode_png(pixels).numpy()


def grid(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    return np.mgrid[0:height, 0:width]


def figure(rng: np.random.Generator, kind: int, height: int, width: int) -> np.ndarray:
    """A bool mask of a circle, square, cross, stripes or ring somewhere in the picture."""
    y, x = grid(height, width)
    size = min(height, width)
    r = rng.uniform(0.2, 0.32) * size
    cy, cx = rng.uniform(0.4, 0.6) * height, rng.uniform(0.4, 0.6) * width
    far = np.maximum(abs(y - cy), abs(x - cx))
    round_ = np.hypot(y - cy, x - cx)
    return [
        round_ < r,
        far < r,
        (far < r * 1.2) & (np.minimum(abs(y - cy), abs(x - cx)) < r * 0.3),
        ((y + rng.integers(8)) // max(2, size // 10)) % 2 == 0,
        (round_ < r * 1.2) & (round_ > r * 0.7),
    ][kind]


TINTS = np.array([[200, 60, 50], [60, 180, 70], [60, 80, 210], [210, 190, 60], [180, 70, 190]], np.float32)


def picture(rng: np.random.Generator, kind: int, height: int = 32, width: int = 32) -> np.ndarray:
    """Noise with a figure in a colour that mostly goes with its kind."""
    tint = TINTS[kind if rng.random() < 0.8 else rng.integers(len(TINTS))] + rng.normal(0, 12, 3)
    pixels = rng.normal(rng.uniform(60, 130), 18, (height, width, 3))
    pixels[figure(rng, kind, height, width)] = tint
    return np.clip(pixels + rng.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)


def labels(rng: np.random.Generator, count: int, classes: int) -> list[int]:
    """Every class equally often, in random order."""
    return [int(v) for v in rng.permutation(np.arange(count) % classes)]


def plain_images(rng: np.random.Generator, kinds: Sequence[int], side: int = 32) -> list[bytes]:
    return [example({"image": jpeg(picture(rng, k, side, side)), "label": k}) for k in kinds]


def make_shapes(folder: Path, rng: np.random.Generator) -> None:
    words = ["circle", "square", "cross", "stripes"]
    for name, count, shards in (("train", 320, 4), ("val", 80, 2), ("test", 40, 1)):
        records = [
            example(
                {
                    "image/encoded": jpeg(picture(rng, k)),
                    "image/class/label": k,
                    "image/class/text": words[k],
                    "image/height": 32,
                    "image/width": 32,
                    "image/filename": f"{name}_{i:04d}.jpg",
                }
            )
            for i, k in enumerate(labels(rng, count, 4))
        ]
        write_shards(folder, name, records, shards)


def make_shapes_sorted(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 320), ("val", 80)):
        write(folder / f"{name}.tfrecord", plain_images(rng, sorted(labels(rng, count, 4))))


def make_shapes_gzip(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 320), ("val", 80)):
        write(folder / f"{name}.tfrecord.gz", plain_images(rng, labels(rng, count, 4)), "GZIP")


def make_shapes_pool(folder: Path, rng: np.random.Generator) -> None:
    write(folder / "all.tfrecord", plain_images(rng, labels(rng, 400, 4)))


def make_flowers(folder: Path, rng: np.random.Generator) -> None:
    for name, count, shards in (("train", 250, 2), ("val", 50, 1)):
        records = [example({"image": jpeg(picture(rng, k, 64, 64)), "label": k + 1}) for k in labels(rng, count, 5)]
        write_shards(folder, name, records, shards)


def make_animals(folder: Path, rng: np.random.Generator) -> None:
    words = ["bird", "cat", "dog"]
    for name, count, shards in (("train", 240, 2), ("val", 60, 1)):
        records = [example({"image": png(picture(rng, k, 48, 48)), "label": words[k]}) for k in labels(rng, count, 3)]
        write_shards(folder, name, records, shards)


def make_cats_dogs(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 80)):
        kinds = rng.permutation([1] * (count // 10) + [0] * (count - count // 10))
        records = [
            example({"image": png(picture(rng, int(k))), "target": int(k), "image_name": f"ISIC_{i:07d}"})
            for i, k in enumerate(kinds)
        ]
        write(folder / f"{name}.tfrecord", records)


def make_sizes(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 200), ("val", 60)):
        records = []
        for k in labels(rng, count, 3):
            height, width = (int(v) for v in rng.integers(40, 65, 2))
            pixels = picture(rng, k, height, width)
            records.append(example({"image": jpeg(pixels), "height": height, "width": width, "label": k}))
        write(folder / f"{name}.tfrecord", records)


def digit(rng: np.random.Generator, k: int) -> np.ndarray:
    """Seven segments of a clock's digit, moved about, with noise."""
    on = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
    spans = [(0, 2, 0, 10), (0, 9, 0, 2), (0, 9, 8, 10), (8, 10, 0, 10), (9, 18, 0, 2), (9, 18, 8, 10), (16, 18, 0, 10)]
    pixels = np.zeros((28, 28), np.float32)
    dy, dx = rng.integers(2, 8), rng.integers(5, 13)
    for lit, (y0, y1, x0, x1) in zip(on[k], spans, strict=True):
        if lit == "1":
            pixels[dy + y0 : dy + y1, dx + x0 : dx + x1] = rng.uniform(170, 255)
    return np.clip(pixels + rng.normal(0, 10, pixels.shape), 0, 255).astype(np.uint8)


def make_digits(folder: Path, rng: np.random.Generator) -> None:
    for name, count, shards in (("train", 500, 2), ("test", 100, 1)):
        records = [
            example({"image_raw": digit(rng, k).tobytes(), "label": k, "height": 28, "width": 28, "depth": 1})
            for k in labels(rng, count, 10)
        ]
        write_shards(folder, name, records, shards)


def make_vectors(folder: Path, rng: np.random.Generator) -> None:
    centres = rng.normal(0, 1.2, (3, 16))
    for name, count in (("train", 400), ("val", 100)):
        records = [
            example({"features": (centres[k] + rng.normal(0, 1, 16)).astype("<f4").tobytes(), "label": k})
            for k in labels(rng, count, 3)
        ]
        write(folder / f"{name}.tfrecord", records)


def make_tensors(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 60)):
        records = [
            example({"image": tf.io.serialize_tensor(picture(rng, k, 24, 24)).numpy(), "label": k})
            for k in labels(rng, count, 3)
        ]
        write(folder / f"{name}.tfrecord", records)


def make_adult(folder: Path, rng: np.random.Generator) -> None:
    jobs = ["clerk", "farmer", "sales", "tech"]
    for name, count, shards in (("train", 600, 2), ("val", 150, 1)):
        records = []
        for one in rng.permutation(np.arange(count) % 4 == 0):
            record: Record = {
                "age": int(np.clip(rng.normal(48 if one else 35, 9), 17, 90)),
                "hours": float(np.clip(rng.normal(47 if one else 38, 7), 5, 90)),
                "gain": float(rng.uniform(2e3, 1e5)) if rng.random() < (0.3 if one else 0.03) else 0.0,
                "job": jobs[rng.choice(4, p=[0.2, 0.1, 0.2, 0.5] if one else [0.35, 0.25, 0.3, 0.1])],
                "married": int(rng.random() < (0.8 if one else 0.35)),
                "label": int(one),
            }
            records.append(example(record))
        write_shards(folder, name, records, shards)


def make_fraud(folder: Path, rng: np.random.Generator) -> None:
    centre = rng.normal(0, 1.3, 10)
    for name, count in (("train", 600), ("val", 200)):
        records = []
        for k in [0] * (count - count // 20) + [1] * (count // 20):
            x = [float(v) for v in rng.normal(0, 1, 10) + k * centre]
            records.append(example({"x": x, "amount": float(rng.lognormal(4 + k, 1)), "label": k}))
        write(folder / f"{name}.tfrecord", records)


GOOD = "great lovely superb moving funny brilliant charming honest warm clever".split()
BAD = "awful dull boring weak messy tedious silly noisy flat painful".split()
PLAIN = (
    "the a film plot actor scene music story and of it was with this that for very quite some director end start "
    "script camera cast hour night friend moment"
).split()


def make_reviews(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 400), ("val", 100)):
        records = []
        for k in labels(rng, count, 2):
            words = list(rng.choice(PLAIN, rng.integers(4, 25)))
            for _ in range(rng.integers(1, 6)):
                words.insert(rng.integers(len(words) + 1), rng.choice((BAD, GOOD)[k]))
            text = " ".join(str(w) for w in words)
            records.append(example({"text": text.capitalize() + ".", "label": k}))
        write(folder / f"{name}.tfrecord", records)


def make_tokens(folder: Path, rng: np.random.Generator) -> None:
    for name, count, shards in (("train", 400, 2), ("val", 100, 1)):
        records = []
        for k in labels(rng, count, 4):
            ids = rng.integers(1, 2000, rng.integers(5, 41))
            hint = rng.random(len(ids)) < 0.4
            ids[hint] = 1900 + 20 * k + rng.integers(0, 20, hint.sum())
            records.append(example({"tokens": [int(v) for v in ids], "label": k}))
        write_shards(folder, name, records, shards)


def make_tags(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 80)):
        records = []
        for _ in range(count):
            tokens = [int(v) for v in rng.integers(1, 500, rng.integers(4, 21))]
            records.append(example({"tokens": tokens, "tags": [0 if t < 300 else (t - 300) // 50 + 1 for t in tokens]}))
        write(folder / f"{name}.tfrecord", records)


def make_gestures(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 80)):
        records = []
        for k in labels(rng, count, 5):
            steps = int(rng.integers(10, 31))
            t = np.arange(steps)[:, None]
            frames = np.sin(t * 0.15 * (k + 1) + np.arange(6)) + rng.normal(0, 0.3, (steps, 6))
            lists = {"frames": tf.train.FeatureList(feature=[feature([float(v) for v in f]) for f in frames])}
            record = tf.train.SequenceExample(
                context=tf.train.Features(feature={"label": feature(k), "length": feature(steps)}),
                feature_lists=tf.train.FeatureLists(feature_list=lists),
            )
            records.append(record.SerializeToString(deterministic=True))
        write(folder / f"{name}.tfrecord", records)


def make_cells(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 120), ("val", 40)):
        records = []
        for _ in range(count):
            mask = np.zeros((48, 48), np.uint8)
            y, x = grid(48, 48)
            for k in (1, 1, 2):
                mask[np.hypot(y - rng.uniform(6, 42), x - rng.uniform(6, 42)) < rng.uniform(5, 10)] = k
            pixels = np.array([[70, 70, 80], [180, 80, 80], [70, 160, 190]])[mask] + rng.normal(0, 22, (48, 48, 3))
            image = np.clip(pixels, 0, 255).astype(np.uint8)
            records.append(example({"image": png(image), "mask": png(mask[..., None])}))
        write(folder / f"{name}.tfrecord", records)


def make_scenes(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 80)):
        records = []
        for _ in range(count):
            ids = sorted(int(v) for v in rng.choice(6, rng.integers(0, 5), replace=False))
            pixels = rng.normal(90, 18, (32, 32, 3))
            for k in ids:
                y, x = (k // 3) * 16 + rng.integers(0, 5), (k % 3) * 10 + rng.integers(0, 3)
                pixels[y : y + 10, x : x + 7] = TINTS[k % 5] + rng.normal(0, 10, 3)
            hot = [int(k in ids) for k in range(6)]
            image = jpeg(np.clip(pixels, 0, 255).astype(np.uint8))
            records.append(example({"image": image, "labels": ids, "multi_hot": hot}))
        write(folder / f"{name}.tfrecord", records)


def make_houses(folder: Path, rng: np.random.Generator) -> None:
    weights = rng.uniform(-60000, 90000, 8)
    for name, count in (("train", 500), ("val", 100)):
        records = []
        for _ in range(count):
            x = rng.normal(0, 1, 8)
            price = np.clip(380000 + x @ weights + rng.normal(0, 15000), 50000, 900000)
            records.append(example({"x": [float(v) for v in x], "price": float(price)}))
        write(folder / f"{name}.tfrecord", records)


def make_power(folder: Path, rng: np.random.Generator) -> None:
    hours = np.arange(1000)
    temperature = 12 + 9 * np.sin(hours * 2 * np.pi / 24) + 0.008 * hours + rng.normal(0, 1, 1000)
    wind = abs(rng.normal(5, 2, 1000))
    load = 900 - 18 * temperature + 120 * np.sin(hours * 2 * np.pi / 168) + rng.normal(0, 12, 1000)
    records = [
        example({"hour": int(h), "load": float(load[h]), "temperature": float(temperature[h]), "wind": float(wind[h])})
        for h in hours
    ]
    write(folder / "train.tfrecord", records[:800])
    write(folder / "val.tfrecord", records[800:])


def place(rng: np.random.Generator, pixels: np.ndarray, kind: int) -> tuple[float, float, float, float]:
    """Paint a filled box; its ymin, xmin, ymax, xmax as fractions."""
    side = pixels.shape[0]
    h, w = rng.integers(side // 5, side // 2, 2)
    y, x = rng.integers(0, side - h), rng.integers(0, side - w)
    pixels[y : y + h, x : x + w] = TINTS[kind] + rng.normal(0, 10, 3)
    return float(y / side), float(x / side), float((y + h) / side), float((x + w) / side)


def make_boxes(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 160), ("val", 40)):
        records = []
        for _ in range(count):
            pixels = rng.normal(90, 18, (64, 64, 3))
            kinds = [int(v) for v in rng.integers(0, 3, rng.integers(1, 5))]
            ymin, xmin, ymax, xmax = zip(*(place(rng, pixels, k) for k in kinds), strict=True)
            record: Record = {
                "image/encoded": jpeg(np.clip(pixels, 0, 255).astype(np.uint8)),
                "image/object/bbox/xmin": xmin,
                "image/object/bbox/ymin": ymin,
                "image/object/bbox/xmax": xmax,
                "image/object/bbox/ymax": ymax,
                "image/object/class/label": [k + 1 for k in kinds],
            }
            records.append(example(record))
        write(folder / f"{name}.tfrecord", records)


def make_single_box(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 200), ("val", 50)):
        records = []
        for k in labels(rng, count, 3):
            pixels = rng.normal(90, 18, (64, 64, 3))
            box = place(rng, pixels, k)
            image = jpeg(np.clip(pixels, 0, 255).astype(np.uint8))
            records.append(example({"image": image, "bbox": box, "label": k}))
        write(folder / f"{name}.tfrecord", records)


def make_ratings(folder: Path, rng: np.random.Generator) -> None:
    users, movies = rng.normal(0, 0.8, (100, 3)), rng.normal(0, 0.8, (50, 3))
    for name, count in (("train", 800), ("val", 200)):
        records = []
        for _ in range(count):
            u, m = int(rng.integers(100)), int(rng.integers(50))
            score = float(np.clip(np.round(3 + users[u] @ movies[m] + movies[m][0]), 1, 5))
            records.append(example({"user_id": u, "movie_id": m, "rating": score}))
        write(folder / f"{name}.tfrecord", records)


def make_listings(folder: Path, rng: np.random.Generator) -> None:
    centres = rng.normal(0, 1, (3, 4))
    for name, count in (("train", 300), ("val", 80)):
        records = []
        for k in labels(rng, count, 3):
            meta = [float(v) for v in centres[k] + rng.normal(0, 1, 4)]
            records.append(example({"image": jpeg(picture(rng, k)), "meta": meta, "label": k}))
        write(folder / f"{name}.tfrecord", records)


def make_audio(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 300), ("val", 80)):
        records = []
        for i, k in enumerate(labels(rng, count, 4)):
            wave = 0.6 * np.sin(np.arange(400) * 0.05 * (k + 1) * rng.uniform(0.95, 1.05) + rng.uniform(0, 6))
            wave = np.clip(wave + rng.normal(0, 0.1, 400), -1, 1)
            record: Record = {"audio": [float(v) for v in wave], "label": k, "speaker": f"spk{i % 12}"}
            records.append(example(record))
        write(folder / f"{name}.tfrecord", records)


def make_tiny(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("train", 20), ("val", 8)):
        write(folder / f"{name}.tfrecord", plain_images(rng, labels(rng, count, 2)))


MAKERS = {name.removeprefix("make_"): make for name, make in list(globals().items()) if name.startswith("make_")}


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    for number, (name, make) in enumerate(MAKERS.items()):
        make(root / "data" / name, np.random.default_rng(1000 + number))
        print(f"{name}: {sum(f.stat().st_size for f in (root / 'data' / name).iterdir()):,} bytes")


if __name__ == "__main__":
    main()
