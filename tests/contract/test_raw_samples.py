"""Raw files as samples: the same values that building them into records gives."""

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode_image, photo

import bushel
from bushel import contract, sources
from bushel import transforms as t
from bushel.contract.raw_samples import read_raw


def contract_of(data: Path, *features: str, transforms: Any = (), split: str = "train") -> contract.Contract:
    return contract.make(bushel.open(data), contract.Preparation(features, transforms), split=split)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A table with a column of digits that is text, because one row of it is."""
    lines = [f"{number:05},{number / 4},{'ab'[number % 2]}" for number in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(["zip,size,kind", *lines, "A-1,3,a", ""]))
    return tmp_path / "rows.csv"


def test_rows_of_a_table_are_the_samples_of_the_records_built_from_it(rows: Path, tmp_path: Path) -> None:
    bushel.build(rows, tmp_path / "data", label="kind", order="source")
    made = contract_of(tmp_path / "data", "zip", "size")
    train = bushel.open(tmp_path / "data")["train"]
    samples = [raw.sample for raw in read_raw(made, rows)]
    assert len(samples) == 21
    for row, sample in enumerate(samples):
        assert sample is not None
        assert {name: sample[name] for name in ("zip", "size")} == {name: train[row][name] for name in ("zip", "size")}


def test_a_column_of_digits_stays_text_where_it_was_text_in_training(rows: Path, tmp_path: Path) -> None:
    bushel.build(rows, tmp_path / "data", label="kind")
    (tmp_path / "new.csv").write_text("size,zip\n1,00042\n")
    (raw,) = read_raw(contract_of(tmp_path / "data", "zip", "size"), tmp_path / "new.csv")
    assert raw.sample == {"size": 1.0, "zip": "00042"}
    assert raw.name == f"{tmp_path / 'new.csv'}: row 0"


def test_a_missing_column_names_the_nearest(rows: Path, tmp_path: Path) -> None:
    bushel.build(rows, tmp_path / "data", label="kind")
    (tmp_path / "new.csv").write_text("sise,zip\n1,2\n")
    with pytest.raises(bushel.MissingName, match="no column 'size'; did you mean 'sise'"):
        list(read_raw(contract_of(tmp_path / "data", "zip", "size"), tmp_path / "new.csv"))


def test_a_row_that_lacks_a_value_says_so_and_stops_no_other(rows: Path, tmp_path: Path) -> None:
    bushel.build(rows, tmp_path / "data", label="kind")
    (tmp_path / "new.csv").write_text("size,zip\n1,a\n,b\nx,c\n")
    found = list(read_raw(contract_of(tmp_path / "data", "zip", "size"), tmp_path / "new.csv"))
    assert [raw.sample is None for raw in found] == [False, False, True]
    assert found[1].sample == {"zip": "b"}
    assert "'x'" in found[2].why


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(6):
        (tmp_path / "photos" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        pixels = photo(number, 20, 30)
        (tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg").write_bytes(encode_image(pixels, "jpeg"))
    return tmp_path / "photos"


def test_images_are_turned_upright_as_the_build_turns_them(photos: Path, tmp_path: Path) -> None:
    from PIL import Image

    turned = io.BytesIO()
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(photo(9, 20, 30)).save(turned, "jpeg", exif=exif)
    (photos / "a" / "turned.jpg").write_bytes(turned.getvalue())
    bushel.build(photos, tmp_path / "data")
    train = bushel.open(tmp_path / "data")["train"]
    made = contract_of(tmp_path / "data", "image", transforms=(t.decode_image("image"), t.resize("image", 8, 8)))
    built = {train[row]["key"]: train[row]["image"] for row in range(len(train))}
    for raw in read_raw(made, photos):
        assert raw.sample is not None
        assert raw.sample["image"] == built[str(Path(raw.name).relative_to(photos))]
    (alone,) = read_raw(made, photos / "a" / "turned.jpg")
    assert alone.sample is not None
    assert alone.sample["image/height"] == 30


def test_build_transforms_run_on_raw_files(photos: Path, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "data", transforms=[t.resize_encoded("image", 10, 12)])
    train = bushel.open(tmp_path / "data")["train"]
    made = contract_of(tmp_path / "data", "image", transforms=(t.decode_image("image"),))
    built = {train[row]["key"]: train[row]["image"] for row in range(len(train))}
    found = list(read_raw(made, photos))
    assert len(found) == 6
    for raw in found:
        assert raw.sample is not None
        assert raw.sample["image"] == built[str(Path(raw.name).relative_to(photos))]


def test_an_image_that_is_none_says_so_and_stops_no_other(photos: Path, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "data")
    (photos / "a" / "bad.jpg").write_bytes(b"no image")
    found = list(read_raw(contract_of(tmp_path / "data", "image", transforms=(t.decode_image("image"),)), photos))
    assert [Path(raw.name).name for raw in found if raw.sample is None] == ["bad.jpg"]
    assert len(found) == 7


def test_text_is_a_sample_a_line_or_a_file_as_it_was_built(tmp_path: Path) -> None:
    for name, words in (("good", "fine day"), ("bad", "no\nsun")):
        (tmp_path / "texts" / name).mkdir(parents=True)
        (tmp_path / "texts" / name / "1.txt").write_text(words)
    bushel.build(tmp_path / "texts", tmp_path / "files")
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    bushel.build(tmp_path / "lines.txt", tmp_path / "lines")
    of_files, of_lines = contract_of(tmp_path / "files", "text"), contract_of(tmp_path / "lines", "text")
    (tmp_path / "new.txt").write_text("three\nfour")
    assert [raw.sample for raw in read_raw(of_files, tmp_path / "new.txt")] == [{"text": "three\nfour"}]
    assert [raw.sample for raw in read_raw(of_lines, tmp_path / "new.txt")] == [{"text": "three"}, {"text": "four"}]
    assert [raw.sample for raw in read_raw(of_files, tmp_path / "new.txt", lines=True)] == [
        {"text": "three"},
        {"text": "four"},
    ]
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (raw,) = read_raw(of_files, tmp_path / "latin.txt")
    assert raw.why == "byte 3 is not UTF-8"


def test_records_are_taken_as_they_are(rows: Path, tmp_path: Path) -> None:
    bushel.build(rows, tmp_path / "data", label="kind", split="80/20", transforms=[t.cast("size", "float32")])
    made = contract_of(tmp_path / "data", "zip", "size")
    data = bushel.open(tmp_path / "data")
    found = list(read_raw(made, tmp_path / "data", split="val"))
    assert [raw.name for raw in found] == [f"val:{row}" for row in range(len(data["val"]))]
    assert found[0].sample is not None
    assert found[0].sample["size"] == data["val"][0]["size"]
    with pytest.raises(ValueError, match="split must be one of train, val; got None"):
        list(read_raw(made, tmp_path / "data"))
    with pytest.raises(ValueError, match="split must not be given for raw files"):
        list(read_raw(made, rows, split="val"))


def test_a_damaged_record_says_so_and_stops_no_other(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        for number in range(5):
            writer.write({"x": [float(number)] * 3})
    made = contract_of(tmp_path / "a.tfrecord", "x", split="all")
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "b.tfrecord").write_bytes(data)
    found = list(read_raw(made, tmp_path / "b.tfrecord"))
    assert [raw.sample is None for raw in found] == [False, False, True, False, False]
    assert "checksum of the data does not match" in found[2].why


def test_a_file_of_another_kind_says_what_the_model_takes(photos: Path, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "data")
    made = contract_of(tmp_path / "data", "image", transforms=(t.decode_image("image"),))
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(bushel.SchemaMismatch, match=r"the model takes no text alone; it takes image: bytes \(image\)"):
        list(read_raw(made, tmp_path / "x.txt"))
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(bushel.MissingName, match=r"x\.npy: no feature 'image'"):
        list(read_raw(made, tmp_path / "x.npy"))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    lines = [
        f"{'good day and sun' if number % 2 else 'bad rain'} {number},{number * 1.5},{'yn'[number % 2]}"
        for number in range(30)
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,size,label", *lines, ""]))
    return tmp_path / "reviews.csv"


@pytest.mark.parametrize(
    ("steps", "features", "layout"),
    [
        ([t.tokenise("text", length=6), t.standardise("size")], ("text", "size"), ()),
        ([t.clean("text"), t.tfidf("text")], ("text", "size"), (bushel.Dense("text"),)),
        ([t.tokenise("text")], ("text",), (bushel.Pad("text", length=5),)),
    ],
    ids=["tokens and numbers", "sparse", "ragged"],
)
def test_what_the_build_learnt_is_applied_to_raw_rows(
    reviews: Path, tmp_path: Path, steps: Any, features: Any, layout: Any
) -> None:
    bushel.build(reviews, tmp_path / "data", transforms=steps, order="source")
    preparation = contract.Preparation(features, (), layout)
    contract.write(contract.make(bushel.open(tmp_path / "data"), preparation), tmp_path / "contract.json")
    made = contract.read(tmp_path / "contract.json")
    assert contract.verify(made) == []
    samples = [raw.sample for raw in read_raw(made, reviews) if raw.sample is not None]
    assert len(samples) == 30
    prepared = contract.prepare(made, samples, built=True)
    (batch,) = bushel.batches(
        bushel.open(tmp_path / "data")["train"], batch_size=30, columns=list(features), layout=layout
    )
    for name in made.inputs:
        expected = contract.as_array(name, batch[name])
        assert prepared[name].dtype == expected.dtype
        assert np.array_equal(prepared[name], expected), name


def test_what_reading_transforms_learnt_is_in_the_contract(reviews: Path, tmp_path: Path) -> None:
    bushel.build(reviews, tmp_path / "data")
    data = bushel.open(tmp_path / "data")
    fit = t.tokenise("text", length=6).begin_fit()
    fit.add([data["train"][row] for row in range(30)])
    preparation = contract.Preparation(("text",), (t.clean("text"), fit.finish()))
    contract.write(contract.make(data, preparation), tmp_path / "contract.json")
    again = contract.read(tmp_path / "contract.json")
    assert again.preparation.steps == preparation.steps
    assert contract.verify(again) == []


def as_built_again(source: Any, feature: str, path: Path, folder: Path) -> tuple[list[Any], list[Any]]:
    """What a build stored of a feature, and what `predict` reads of the same files."""
    bushel.build(source, folder / "data")
    data = bushel.open(folder / "data")["train"]
    made = contract_of(folder / "data", feature)
    stored = [np.asarray(data[row][feature]) for row in range(len(data))]
    raw = list(read_raw(made, path))
    assert [one.why for one in raw] == [""] * len(raw)
    return stored, [np.asarray(one.sample[feature]) for one in raw if one.sample is not None]


def same(stored: list[Any], read: list[Any]) -> bool:
    return len(stored) > 0 and sorted(a.tobytes() for a in stored) == sorted(a.tobytes() for a in read)


def test_sounds_are_cut_into_clips_as_in_the_build(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "tones").mkdir()
    for number, rate in enumerate((8000, 16000)):  # both are resampled to the rate of the first
        with wave.open(str(tmp_path / "tones" / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes((9000 * np.sin(np.arange(rate) * (0.1 + number))).astype("<i2").tobytes())
    source = sources.audio(tmp_path / "tones", seconds=0.25)
    assert same(*as_built_again(source, "audio", tmp_path / "tones", tmp_path))


def test_tables_are_cut_into_windows_as_in_the_build_and_need_no_label(tmp_path: Path) -> None:
    rows = [f"{time},{np.sin(time):.3f},{time % 7},{int(time > 30)}" for time in range(60)]
    (tmp_path / "log.csv").write_text("t,a,b,state\n" + "\n".join(rows))
    (tmp_path / "new.csv").write_text("t,a,b\n" + "\n".join(row.rpartition(",")[0] for row in rows))
    source = sources.series(tmp_path / "log.csv", time="t", length=10, label="state")
    stored, read = as_built_again(source, "values", tmp_path / "log.csv", tmp_path)
    assert same(stored, read)
    made = contract_of(tmp_path / "data", "values")
    assert same(stored, [np.asarray((one.sample or {})["values"]) for one in read_raw(made, tmp_path / "new.csv")])


def test_arrays_of_files_are_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=x, label=np.arange(9) % 2)
    np.save(tmp_path / "x.npy", x)
    assert same(*as_built_again(tmp_path / "rows.npz", "x", tmp_path / "rows.npz", tmp_path))
    made = contract_of(tmp_path / "data", "x")
    assert same(list(x), [np.asarray((one.sample or {})["x"]) for one in read_raw(made, tmp_path / "x.npy")])


def test_images_are_cut_into_tiles_as_in_the_build(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "0.png").write_bytes(encode_image(photo(0, 40, 40), "png"))
    source = sources.tiles(tmp_path / "photos", height=16)
    bushel.build(source, tmp_path / "data")
    made = contract_of(tmp_path / "data", "image", transforms=(t.decode_image("image"),))
    raw = list(read_raw(made, tmp_path / "photos" / "0.png"))
    assert len(raw) == len(bushel.open(tmp_path / "data")["train"]) == 9
    assert raw[1].name.endswith("0.png: tile at row 0, column 16")


def test_videos_are_cut_into_clips_as_in_the_build(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    (tmp_path / "films").mkdir()
    with av.open(str(tmp_path / "films" / "0.mp4"), "w") as file:
        stream = file.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        for number in range(8):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 20 * number, np.uint8), format="rgb24")
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    source = sources.video(tmp_path / "films", frames=4, height=16, width=16)
    bushel.build(source, tmp_path / "data")
    data = bushel.open(tmp_path / "data")["train"]
    made = contract_of(tmp_path / "data", "image")
    read = [tuple((one.sample or {})["image"]) for one in read_raw(made, tmp_path / "films" / "0.mp4")]
    assert sorted(read) == sorted(tuple(data[row]["image"]) for row in range(len(data)))
    assert len(read) == 2
