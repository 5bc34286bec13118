"""Datasets with a fault: one for each failure of files and records that was collected, and the rule that finds it."""

import io
import wave
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel import Feature, Schema
from bushel.checking import ReadingPlan

Case = Callable[[Path], dict[str, Any]]
CASES: list[tuple[str, str, Case]] = []


def shows(row: str, rule: str) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES.append((row, rule, case))
        return case

    return register


def write(path: Path, samples: Iterable[dict[str, Any]], compression: Any = None, schema: Schema | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with bushel.Writer(path, compression=compression, schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    return path


def rows(count: int = 200, seed: int = 0, classes: int = 4, **more: Any) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {"x": random.normal(size=8).astype(np.float32), "label": int(random.integers(classes)), **more}
        for _ in range(count)
    ]


def jpeg(pixels: np.ndarray[Any, Any], format: str = "JPEG", mode: str | None = None, **options: Any) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    out = io.BytesIO()
    (image.convert(mode) if mode else image).save(out, format, **options)
    return out.getvalue()


def noise(random: np.random.Generator, side: int = 32, low: int = 0, high: int = 256) -> np.ndarray[Any, Any]:
    coarse = random.integers(low, high, (4, 4, 3)).astype(np.uint8)
    return np.kron(coarse, np.ones((side // 4, side // 4, 1), np.uint8))


def photos(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [{"image": jpeg(noise(random)), "label": i % 3} for i in range(count)]


@shows("L01", "FIL001")
def a_csv_file_beside_the_shards(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows())
    (tmp / "labels.csv").write_text("name,label\na,1\nb,2\n")
    return {"data": tmp}


@shows("L02", "FIL002")
def gzip_without_saying_so(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", rows(), "gzip")}


@shows("L03, L12", "FIL005")
def a_writer_that_was_never_closed(tmp: Path) -> dict[str, Any]:
    path = write(tmp / "train.tfrecord", rows())
    path.write_bytes(path.read_bytes()[:-7])
    return {"data": path}


@shows("L05, L06", "FIL003")
def two_flipped_bytes_in_two_files(tmp: Path) -> dict[str, Any]:
    for name in ("a", "b"):
        path = write(tmp / f"{name}.tfrecord", rows())
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
    return {"data": tmp}


@shows("L07", "FIL004")
def zeros_over_a_header(tmp: Path) -> dict[str, Any]:
    path = write(tmp / "train.tfrecord", rows())
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    path.write_bytes(data)
    return {"data": path}


@shows("L08, L11", "FIL006")
def shards_missing_and_empty(tmp: Path) -> dict[str, Any]:
    write(tmp / "train-00000-of-00003.tfrecord", rows())
    (tmp / "train-00001-of-00003.tfrecord").write_bytes(b"")
    return {"data": tmp}


@shows("L13", "FIL010")
def values_of_65_mebibytes(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "big.tfrecord", [{"x": bytes(65 << 20)}])}


@shows("index", "FIL008")
def a_file_written_again_behind_its_index(tmp: Path) -> dict[str, Any]:
    path = write(tmp / "train.tfrecord", rows())
    bushel.write_index(path)
    write(path, rows(100, seed=1))
    return {"data": path}


@shows("manifest", "FIL009")
def a_shard_of_another_version(tmp: Path) -> dict[str, Any]:
    from bushel.records.manifest import Manifest, ShardEntry, SplitEntry, write_manifest

    path = write(tmp / "train-00000-of-00001.tfrecord", rows())
    shard = ShardEntry(path=path.name, records=199, bytes=path.stat().st_size, sha256="", digest="")
    schema = bushel.infer_schema(path)
    write_manifest(tmp, Manifest(splits={"train": SplitEntry(shards=[shard])}, schema=schema))
    return {"data": tmp}


@shows("L14", "SCH001")
def a_feature_that_is_renamed_in_validation(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows())
    write(tmp / "val.tfrecord", [{"x": row["x"], "labels": row["label"]} for row in rows(seed=1)])
    return {"data": tmp}


@shows("L15", "SCH002")
def integers_in_most_records_and_floats_in_some(tmp: Path) -> dict[str, Any]:
    write(tmp / "a.tfrecord", [{"age": i} for i in range(50)])
    write(tmp / "b.tfrecord", [{"age": 1.5}])
    return {"data": tmp}


@shows("6", "SCH008")
def integers_in_train_and_floats_in_validation(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", [{"age": i} for i in range(50)])
    write(tmp / "val.tfrecord", [{"age": 1.5}])
    return {"data": tmp}


@shows("L16, L19, L22", "SCH003")
def two_sizes_where_all_others_have_three(tmp: Path) -> dict[str, Any]:
    samples = [{"shape": [32, 32, 3]} for _ in range(99)] + [{"shape": [32, 32]}]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("L17", "SCH007")
def records_that_are_no_examples(tmp: Path) -> dict[str, Any]:
    from bushel import _native

    path = tmp / "train.tfrecord"
    path.write_bytes(b"".join(_native.frame(b"\xff\xff\xffnothing") for _ in range(3)))
    return {"data": path}


@shows("L17", "SCH006")
def records_of_another_dataset(tmp: Path) -> dict[str, Any]:
    write(tmp / "a.tfrecord", rows())
    write(tmp / "b.tfrecord", [{"text": "one", "source": "two"}])
    return {"data": tmp}


@shows("L20, L21", "SCH004")
def float32_where_uint8_is_declared(tmp: Path) -> dict[str, Any]:
    path = write(tmp / "a.tfrecord", [{"pixels": np.zeros(16, np.float32).tobytes()} for _ in range(5)])
    bushel.data.schema.write_sidecar(path, Schema.of(pixels=Feature(dtype="uint8", shape=(4, 4))))
    return {"data": path}


@shows("S32", "SCH005")
def a_feature_that_is_mostly_absent(tmp: Path) -> dict[str, Any]:
    samples: list[dict[str, Any]] = [{"x": 1.0 * i, "rating": i} if i % 10 == 0 else {"x": 1.0 * i} for i in range(100)]
    write(tmp / "a.tfrecord", [s for s in samples if "rating" in s])
    write(tmp / "b.tfrecord", [s for s in samples if "rating" not in s])
    return {"data": tmp}


@shows("L23", "IMG001")
def a_truncated_jpeg(tmp: Path) -> dict[str, Any]:
    samples = photos()
    samples[7]["image"] = samples[7]["image"][:200]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("L23", "IMG002")
def a_png_among_jpegs(tmp: Path) -> dict[str, Any]:
    samples = photos()
    samples[7]["image"] = jpeg(noise(np.random.default_rng(99)), "PNG")
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S24", "IMG003")
def a_photo_to_be_rotated(tmp: Path) -> dict[str, Any]:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    samples = photos()
    samples[3]["image"] = jpeg(noise(np.random.default_rng(5)), exif=exif)
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("L22", "IMG004")
def two_image_sizes(tmp: Path) -> dict[str, Any]:
    samples = photos()
    samples[3]["image"] = jpeg(noise(np.random.default_rng(5), side=64))
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("L16", "IMG005")
def a_grey_image_among_colours(tmp: Path) -> dict[str, Any]:
    samples = photos()
    samples[3]["image"] = jpeg(noise(np.random.default_rng(5)), mode="L")
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("blank", "IMG006")
def images_of_one_colour(tmp: Path) -> dict[str, Any]:
    samples = photos()
    for sample in samples[:5]:
        sample["image"] = jpeg(np.full((32, 32, 3), 200, np.uint8))
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S23", "IMG007")
def red_and_blue_swapped_in_validation(tmp: Path) -> dict[str, Any]:
    for split, order, seed in (("train", [0, 1, 2], 1), ("val", [2, 1, 0], 2)):
        random = np.random.default_rng(seed)
        tint = np.array([120, 60, 0], np.uint8)
        images = [(noise(random, high=120) + tint)[:, :, order] for _ in range(60)]
        write(tmp / f"{split}.tfrecord", [{"image": jpeg(i), "label": n % 3} for n, i in enumerate(images)])
    return {"data": tmp}


@shows("L24", "LBL001")
def labels_from_1_for_a_head_of_4(tmp: Path) -> dict[str, Any]:
    samples = [{"x": row["x"], "label": row["label"] + 1} for row in rows()]
    return {"data": write(tmp / "train.tfrecord", samples), "plan": ReadingPlan(classes=4)}


@shows("L25", "LBL001")
def a_class_that_the_lookup_does_not_know(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", [*rows(), {"x": rows(1)[0]["x"] * 2, "label": -1}])}


@shows("L26, L29", "LBL002")
def labels_that_are_ascii_codes(tmp: Path) -> dict[str, Any]:
    samples = [{"x": row["x"], "label": row["label"] + 48} for row in rows()]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S21", "LBL003")
def a_class_map_for_each_split(tmp: Path) -> dict[str, Any]:
    names = ["cat", "dog", "fox", "owl"]
    for split, order in (("train", [0, 1, 2, 3]), ("val", [1, 0, 2, 3])):
        samples = [{**row, "label/text": names[order[row["label"]]]} for row in rows(seed=len(split))]
        write(tmp / f"{split}.tfrecord", samples)
    return {"data": tmp}


@shows("S03", "LBL004")
def a_label_that_train_has_not(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows(classes=3))
    write(tmp / "val.tfrecord", rows(seed=1, classes=4))
    return {"data": tmp}


@shows("imbalance", "LBL005")
def a_class_with_hundredfold_records(tmp: Path) -> dict[str, Any]:
    samples = [{"x": row["x"], "label": int(i % 50 == 0)} for i, row in enumerate(rows(1000))]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("two labels", "LBL006")
def one_content_with_two_labels(tmp: Path) -> dict[str, Any]:
    samples = rows()
    samples[5] = {"x": samples[4]["x"], "label": (samples[4]["label"] + 1) % 4}
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("5", "LBL007")
def records_without_a_label(tmp: Path) -> dict[str, Any]:
    write(tmp / "train-0.tfrecord", rows())
    write(tmp / "train-1.tfrecord", [{"x": row["x"]} for row in rows(5, seed=3)])
    return {"data": tmp}


@shows("S01, S02, S36", "ORD001")
def classes_one_behind_the_other(tmp: Path) -> dict[str, Any]:
    samples = sorted(rows(1000), key=lambda row: row["label"])
    return {"data": write(tmp / "train.tfrecord", samples), "plan": ReadingPlan(batch_size=32, shuffle_buffer=50)}


@shows("one shard a class", "ORD002")
def one_shard_for_each_class(tmp: Path) -> dict[str, Any]:
    for label in range(3):
        write(tmp / f"train-{label}.tfrecord", [{**row, "label": label} for row in rows(100, seed=label)])
    return {"data": tmp}


@shows("S03", "ORD003")
def validation_of_one_class(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows())
    write(tmp / "val.tfrecord", [{**row, "label": 3} for row in rows(seed=1)])
    return {"data": tmp}


@shows("S37, 15", "SPL001")
def records_of_test_in_train(tmp: Path) -> dict[str, Any]:
    samples = rows()
    write(tmp / "train.tfrecord", samples)
    write(tmp / "test.tfrecord", [*rows(seed=1), *samples[:20]])
    return {"data": tmp}


@shows("S37", "SPL002")
def images_of_train_encoded_again_in_test(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(3)
    images = [noise(random) for _ in range(40)]
    write(tmp / "train.tfrecord", [{"image": jpeg(i), "label": n % 3} for n, i in enumerate(images)])
    write(tmp / "test.tfrecord", [{"image": jpeg(i, quality=60), "label": n % 3} for n, i in enumerate(images[:10])])
    return {"data": tmp}


@shows("S37", "SPL003")
def texts_of_train_with_another_last_word(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(3)
    words = [f"word{i}" for i in range(500)]
    texts = [" ".join(random.choice(words, 60)) for _ in range(40)]
    write(tmp / "train.tfrecord", [{"text": text, "label": n % 2} for n, text in enumerate(texts)])
    write(tmp / "test.tfrecord", [{"text": f"{text} end", "label": n % 2} for n, text in enumerate(texts[:10])])
    return {"data": tmp}


@shows("15", "SPL004")
def a_patient_in_two_splits(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", [{**row, "patient_id": i // 10} for i, row in enumerate(rows())])
    write(tmp / "test.tfrecord", [{**row, "patient_id": 19 + i // 10} for i, row in enumerate(rows(seed=1))])
    return {"data": tmp}


@shows("drift", "SPL005")
def other_shares_of_labels(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows(400, classes=2))
    write(tmp / "val.tfrecord", [{**row, "label": int(i % 10 == 0)} for i, row in enumerate(rows(400, seed=1))])
    return {"data": tmp}


@shows("drift", "SPL006")
def validation_that_was_not_scaled(tmp: Path) -> dict[str, Any]:
    write(tmp / "train.tfrecord", rows(400))
    write(tmp / "val.tfrecord", [{**row, "x": row["x"] * 50 + 100} for row in rows(400, seed=1)])
    return {"data": tmp}


@shows("S26", "SPL007")
def each_split_normalised_by_itself(tmp: Path) -> dict[str, Any]:
    for split, seed in (("train", 1), ("test", 2)):
        x = np.random.default_rng(seed).normal(3, 2, (200, 8))
        x = (x - x.mean()) / x.std()
        write(tmp / f"{split}.tfrecord", [{"x": row.astype(np.float32), "label": i % 4} for i, row in enumerate(x)])
    return {"data": tmp}


@shows("17", "SPL008")
def a_source_that_was_read_twice(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", [*rows(), *rows()])}


@shows("S35", "VAL001")
def a_nan(tmp: Path) -> dict[str, Any]:
    samples = rows()
    samples[9]["x"][3] = np.nan
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S27", "VAL002")
def pixels_that_never_change(tmp: Path) -> dict[str, Any]:
    samples = rows()
    for sample in samples:
        sample["x"][0] = 0
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S35", "VAL003")
def a_sentinel(tmp: Path) -> dict[str, Any]:
    samples = rows()
    for sample in samples[::20]:
        sample["x"][2] = -999
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("range", "VAL004")
def values_beyond_those_declared(tmp: Path) -> dict[str, Any]:
    path = write(tmp / "train.tfrecord", rows())
    bushel.data.schema.write_sidecar(path, bushel.infer_schema(path))
    schema = path.with_name(path.name + ".schema.json").read_bytes()
    write(path, [{**row, "x": row["x"] * 100} for row in rows()])
    path.with_name(path.name + ".schema.json").write_bytes(schema)
    return {"data": path}


@shows("text", "VAL005")
def numbers_as_text(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", [{"price": f"{i}.5"} for i in range(50)])}


@shows("S35", "VAL006")
def a_line_end_behind_a_class_name(tmp: Path) -> dict[str, Any]:
    samples = [{"class_name": "cat" if i % 2 else "cat\n"} for i in range(50)]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("S35, 16", "VAL007")
def a_box_whose_corners_are_swapped(tmp: Path) -> dict[str, Any]:
    samples = [{"bbox/xmin": [0.125], "bbox/xmax": [0.5]} for _ in range(50)]
    samples[4] = {"bbox/xmin": [0.75], "bbox/xmax": [0.5]}
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("scale", "VAL008")
def shares_beside_cents(tmp: Path) -> dict[str, Any]:
    scale = np.array([1, 1, 1, 1, 1, 1, 1, 100_000], np.float32)
    return {"data": write(tmp / "train.tfrecord", [{**row, "x": np.tanh(row["x"]) * scale} for row in rows()])}


@shows("7", "TXT001")
def latin_1_among_utf_8(tmp: Path) -> dict[str, Any]:
    samples = [{"text": f"a good film number {i}".encode()} for i in range(50)]
    samples[3] = {"text": "caf\xe9 was closed".encode("latin-1")}
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("empty", "TXT002")
def an_empty_review(tmp: Path) -> dict[str, Any]:
    samples = [{"text": f"a good film number {i}"} for i in range(50)]
    samples[3] = {"text": ""}
    return {"data": write(tmp / "train.tfrecord", samples)}


def tokens(tmp: Path, sequences: list[list[int]]) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", [{"tokens": sequence} for sequence in sequences])}


@shows("S29", "TXT003")
def sequences_of_unknown_words(tmp: Path) -> dict[str, Any]:
    return tokens(tmp, [[1, 1, 1, 1, 1, 0, 0, 0]] * 10 + [[5, 6, 7, 8, 9, 4, 3, 0]] * 40)


@shows("cut", "TXT004")
def sequences_that_fill_every_place(tmp: Path) -> dict[str, Any]:
    return tokens(tmp, [[5, 6, 7, 8, 9, 4, 3, 2]] * 40 + [[5, 6, 7, 0, 0, 0, 0, 0]] * 10)


@shows("S30", "TXT005")
def padding_that_is_a_token(tmp: Path) -> dict[str, Any]:
    return tokens(tmp, [[5, 0, 7, 8, 0, 4, 0, 0]] * 40 + [[5, 6, 7, 0, 0, 0, 0, 0]] * 10)


def blobs(count: int, seed: int, classes: int = 4) -> list[dict[str, Any]]:
    """Classes that neighbours tell apart."""
    centres = np.random.default_rng(11).normal(0, 4, (classes, 5))
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=count)
    return [{"x": (centres[k] + random.normal(size=5)).astype(np.float32), "label": int(k)} for k in labels]


@shows("rare", "LBL008")
def a_class_of_two_records(tmp: Path) -> dict[str, Any]:
    return {"data": write(tmp / "train.tfrecord", [*rows(), *({**row, "label": 4} for row in rows(2, seed=9))])}


@shows("leak", "LBL009")
def an_index_over_rows_that_are_sorted_by_class(tmp: Path) -> dict[str, Any]:
    samples = sorted(rows(), key=lambda row: row["label"])
    return {"data": write(tmp / "train.tfrecord", [{**row, "row": i} for i, row in enumerate(samples)])}


@shows("label errors", "LBL010")
def one_label_in_twelve_flipped(tmp: Path) -> dict[str, Any]:
    samples = blobs(600, seed=1)
    for sample in samples[::12]:
        sample["label"] = (sample["label"] + 1) % 4
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("permuted", "LBL011")
def a_shard_with_another_class_list(tmp: Path) -> dict[str, Any]:
    for shard in range(4):
        samples = blobs(150, seed=shard)
        for sample in samples if shard == 2 else ():
            sample["label"] = [2, 3, 1, 0][sample["label"]]
        write(tmp / f"train-{shard}.tfrecord", samples)
    return {"data": tmp}


@shows("outlier", "VAL009")
def a_price_with_two_zeros_too_many(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(0)
    samples = [{"price": np.float32(random.normal(20, 3)), "label": i % 2} for i in range(400)]
    samples[123]["price"] *= 100
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("scale of a shard", "VAL010")
def a_shard_in_centimetres(tmp: Path) -> dict[str, Any]:
    for shard in range(4):
        scale = 100 if shard == 1 else 1
        samples = [{**row, "x": row["x"] * scale} for row in rows(seed=shard)]
        write(tmp / f"train-{shard}.tfrecord", samples)
    return {"data": tmp}


@shows("mojibake", "TXT006")
def utf_8_that_was_read_as_latin_1(tmp: Path) -> dict[str, Any]:
    texts = [f"das Café Nummer {i} hat für Gäste geöffnet" for i in range(50)]
    return {"data": write(tmp / "a.tfrecord", [{"text": t.encode().decode("latin-1")} for t in texts])}


def speech(random: np.random.Generator, seconds: float = 0.25, rate: int = 16000) -> np.ndarray[Any, Any]:
    """Something like a voice: harmonics that rise and fall, as loud as the range allows."""
    time = np.arange(round(seconds * rate)) / rate
    pitch = random.uniform(90, 220)
    voice = sum(
        random.uniform(0.1, 1) / n * np.sin(2 * np.pi * n * pitch * time + random.uniform(0, 6)) for n in range(1, 9)
    )
    voice = voice * np.hanning(len(time)) + random.normal(size=len(time)) * 0.01
    return (voice / np.abs(voice).max()).astype(np.float32)


def wav(samples: np.ndarray[Any, Any], rate: int = 16000) -> bytes:
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes())
    return out.getvalue()


def sounds(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [{"audio": wav(speech(random)), "audio/rate": 16000, "label": i % 3} for i in range(count)]


@shows("sound", "AUD001")
def a_sound_file_cut_short(tmp: Path) -> dict[str, Any]:
    samples = sounds()
    samples[7]["audio"] = samples[7]["audio"][:30]
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("sound", "AUD002")
def sounds_of_silence(tmp: Path) -> dict[str, Any]:
    samples = sounds()
    samples[3]["audio"] = wav(np.zeros(4000))
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("sound", "AUD003")
def sounds_recorded_too_loud(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    samples = sounds()
    samples[3]["audio"] = wav(3 * speech(random))
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("sound", "AUD004")
def sounds_of_two_rates(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    samples = sounds()
    samples[3] |= {"audio": wav(speech(random, rate=8000), 8000), "audio/rate": 8000}
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("sound", "AUD005")
def mono_and_stereo(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    samples = sounds()
    samples[3]["audio"] = wav(np.stack([speech(random)] * 2, axis=1))
    return {"data": write(tmp / "train.tfrecord", samples)}


@shows("sound", "AUD006")
def a_click_and_a_lecture_among_words(tmp: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    samples = sounds()
    samples[3]["audio"] = wav(speech(random, seconds=0.01))
    samples[9]["audio"] = wav(speech(random, seconds=9.0))
    return {"data": write(tmp / "train.tfrecord", samples)}
