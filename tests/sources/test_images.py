"""Samples from folders of images: real files of odd kinds."""

import contextlib
import io
import json
import os
import pickle
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gather import keys_of, listed, read_all
from pictures import encode_image, photo
from PIL import Image

from bushel.data.columns import BytesColumn
from bushel.errors import FileProblem
from bushel.pixels.headers import BadImage, parse_header
from bushel.sources import images, open_source
from bushel.sources.image_checks import ImageCheck


def picture(width: int = 40, height: int = 30, mode: str = "RGB") -> Image.Image:
    shades = np.linspace(0, 255, width * height * 3).reshape(height, width, 3).astype(np.uint8)
    return Image.fromarray(shades).convert(mode)


def encoded(image: Image.Image, format: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def save(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


JPEG = encoded(picture())


def test_class_folders(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "b.jpg", JPEG)
    save(tmp_path / "cat" / "more" / "a.jpg", JPEG)
    save(tmp_path / "dog" / "c.png", encoded(picture(mode="L"), "PNG"))
    source = images(tmp_path)
    assert source.reads == "random"
    assert keys_of(source) == ["cat/b.jpg", "cat/more/a.jpg", "dog/c.png"]
    assert listed(source, "label") == [b"cat", b"cat", b"dog"]
    assert source.split is None
    columns, refused = read_all(source)
    assert not refused
    assert columns["image"][0] == JPEG
    assert columns["image/height"] == [30, 30, 30]
    assert columns["image/width"] == [40, 40, 40]
    assert columns["image/channels"] == [3, 3, 1]
    assert columns["key"] == [b"cat/b.jpg", b"cat/more/a.jpg", b"dog/c.png"]
    assert set(columns) == set(source.schema())
    assert source.schema()["label"].describe() == "str"
    assert source.schema()["image"].describe() == "bytes (image)"
    assert source.list(0, []).sizes.tolist()[0] == len(JPEG)


@pytest.mark.parametrize(("class_folder", "label"), [("first", b"a"), ("last", b"b"), ("path", b"a/b")])
def test_which_folder_is_the_class(tmp_path: Path, class_folder: Any, label: bytes) -> None:
    save(tmp_path / "a" / "b" / "x.jpg", JPEG)
    assert listed(images(tmp_path, class_folder=class_folder), "label") == [label]


def test_split_folders_are_recognised(tmp_path: Path) -> None:
    for split in ("train", "Validation", "test"):
        save(tmp_path / split / "cat" / "1.jpg", JPEG)
    source = images(tmp_path)
    assert source.split == "split"
    assert listed(source, "split") == [b"val", b"test", b"train"]
    assert listed(source, "label") == [b"cat"] * 3
    assert "split" not in source.schema()


def test_a_class_named_train_beside_others_is_a_class(tmp_path: Path) -> None:
    save(tmp_path / "train" / "1.jpg", JPEG)
    save(tmp_path / "plane" / "1.jpg", JPEG)
    source = images(tmp_path)
    assert source.split is None
    assert listed(source, "label") == [b"plane", b"train"]


def test_hidden_and_foreign_files_are_left_out_and_counted(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.jpg", JPEG)
    for name in (".DS_Store", "Thumbs.db", "._1.jpg", ".hidden.jpg"):
        save(tmp_path / "cat" / name, b"x")
    save(tmp_path / "__MACOSX" / "cat" / "1.jpg", b"x")
    save(tmp_path / "notes.txt", b"x")
    save(tmp_path / "cat" / "2.heic", b"x")
    listing = images(tmp_path).list(0, ["label"])
    assert listing.keys.to_list() == [b"cat/1.jpg"]
    assert listing.counted == {
        "hidden files": 5,
        "files that are not images": 1,
        "images in formats that are not read": 1,
    }


def test_a_ds_store_at_the_top_is_no_class(tmp_path: Path) -> None:
    save(tmp_path / ".DS_Store", b"x")
    save(tmp_path / "cat" / "1.jpg", JPEG)
    assert listed(images(tmp_path), "label") == [b"cat"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    save(tmp_path / "far" / "1.jpg", JPEG)
    root = tmp_path / "root"
    save(root / "cat" / "2.jpg", JPEG)
    (root / "dog").symlink_to(tmp_path / "far")
    (root / "cat" / "3.jpg").symlink_to(tmp_path / "far" / "1.jpg")
    (root / "cat" / "4.jpg").symlink_to(tmp_path / "gone.jpg")
    (root / "cat" / "up").symlink_to(root)
    listing = images(root).list(0, [])
    assert listing.keys.to_list() == [b"cat/2.jpg", b"cat/3.jpg", b"dog/1.jpg"]
    assert listing.counted == {"broken links": 1, "links back to a folder above": 1}


def test_names_in_any_script(tmp_path: Path) -> None:
    for name in ("\u732b", "\u06af\u0631\u0628\u0647", "\u043a\u043e\u0442", "caf\u00e9 \U0001f431"):
        save(tmp_path / name / f"{name} 1.jpg", JPEG)
    source = images(tmp_path)
    assert {label.decode() for label in listed(source, "label")} == {path.name for path in tmp_path.iterdir()}
    assert len(read_all(source)[0]["image"]) == 4


def test_a_name_that_is_no_text_still_has_a_key(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.jpg", JPEG)
    with open(os.fsencode(tmp_path) + b"/cat/\xff.jpg", "wb") as file:  # noqa: PTH123
        file.write(JPEG)
    source = images(tmp_path)
    assert keys_of(source) == ["cat/1.jpg", "cat/\\xff.jpg"]
    assert len(read_all(source)[0]["image"]) == 2


def test_a_folder_without_classes_has_no_label(tmp_path: Path) -> None:
    save(tmp_path / "1.jpg", JPEG)
    source = images(tmp_path)
    assert "label" not in source.schema()
    assert source.list(0, ["label"]).columns == {}


def test_an_image_in_no_class_folder_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "1.jpg", JPEG)
    save(tmp_path / "cat" / "2.jpg", JPEG)
    source = images(tmp_path)
    columns, refused = read_all(source)
    assert columns["label"] == [b"cat"]
    assert refused == [(0, "read", "it is not in a class folder")]


@pytest.mark.parametrize("written", ["csv", "jsonl", "found", "dict"])
def test_labels_from_a_file(tmp_path: Path, written: str) -> None:
    folder = tmp_path / "photos"
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        save(folder / name, JPEG)
    rows = [("2.jpg", "dog, large"), ("1.jpg", "cat"), ("9.jpg", "cow")]
    table = 'file,label\n2.jpg,"dog, large"\n1.jpg,cat\n9.jpg,cow\n'
    if written == "csv":
        source = images(folder, save(tmp_path / "l.csv", table.encode()))
    elif written == "found":
        save(folder / "labels.csv", table.encode())
        source = images(folder)
    elif written == "jsonl":
        lines = "\n".join(json.dumps({"image_id": name[0], "label": label}) for name, label in rows)
        source = images(folder, save(tmp_path / "l.jsonl", lines.encode()))
    else:
        source = images(folder, dict(rows))
    assert listed(source, "label") == [b"cat", b"dog, large", None]
    columns, refused = read_all(source)
    assert columns["label"] == [b"cat", b"dog, large"]
    assert refused == [(2, "read", "the table of labels does not list it")]
    assert source.list(0, []).counted["labels of files that are not there"] == 1
    assert read_all(pickle.loads(pickle.dumps(source))) == (columns, refused)


def test_a_table_beside_one_folder_of_images_labels_them_and_splits_stay(tmp_path: Path) -> None:
    for name in ("images/a.jpg", "images/b.jpg"):
        save(tmp_path / "one" / name, JPEG)
    save(tmp_path / "one" / "labels.csv", b"filename,label\na.jpg,cat\nb.jpg,dog\n")
    assert listed(images(tmp_path / "one"), "label") == [b"cat", b"dog"]  # and no class "images"
    for name in ("train/a.jpg", "test/b.jpg", "train/c.jpg", "test/c.jpg"):
        save(tmp_path / "two" / name, JPEG)
    save(tmp_path / "two" / "labels.csv", b"filename,label\na.jpg,cat\nb.jpg,dog\nc.jpg,cow\n")
    source = images(tmp_path / "two")
    assert keys_of(source) == ["test/b.jpg", "test/c.jpg", "train/a.jpg", "train/c.jpg"]
    assert listed(source, "split") == [b"test", b"test", b"train", b"train"]
    assert listed(source, "label") == [b"dog", None, b"cat", None]  # c.jpg may be either


def test_another_table_of_labels_is_another_source(tmp_path: Path) -> None:
    save(tmp_path / "1.jpg", JPEG)
    save(tmp_path / "labels.csv", b"file,label\n1.jpg,cat\n")
    first = images(tmp_path).fingerprint()
    save(tmp_path / "labels.csv", b"file,label\n1.jpg,dogs\n")
    assert images(tmp_path).fingerprint() != first


def test_how_many_pixels_are_too_many_can_be_said(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.jpg", JPEG)
    (refused,) = read_all(images(tmp_path, max_pixels=1000))[1]
    assert refused.reason == "40x30 pixels: more than 1,000 are refused as a decompression bomb"


def test_labels_may_be_numbers_and_say_the_split(tmp_path: Path) -> None:
    save(tmp_path / "photos" / "1.jpg", JPEG)
    save(tmp_path / "photos" / "2.jpg", JPEG)
    table = save(tmp_path / "l.csv", b"id,age,split\n1,2.5,train\n2,3.5,test\n")
    source = images(tmp_path / "photos", table)
    assert source.schema()["label"].describe() == "float32"
    assert listed(source, "label") == [2.5, 3.5]
    assert source.split == "split"


def test_a_table_of_labels_that_is_not_clear_is_told(tmp_path: Path) -> None:
    save(tmp_path / "photos" / "1.jpg", JPEG)
    table = save(tmp_path / "l.csv", b"file,age,weight\n1.jpg,2,3\n")
    with pytest.raises(FileProblem, match=r"cannot tell which column is the label: age, weight"):
        images(tmp_path / "photos", table).schema()
    assert listed(images(tmp_path / "photos", table, label_column="age"), "label") == [2]
    with pytest.raises(FileProblem, match="no column holds the names of the files"):
        images(tmp_path / "photos", save(tmp_path / "m.csv", b"x,y\na,b\n")).schema()


def test_empty_and_missing_folders_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileProblem, match="there are no images in this folder: it is empty"):
        images(tmp_path / "empty")
    save(tmp_path / "text" / "a.txt", b"x")
    with pytest.raises(FileProblem, match="there are no images in this folder: 1 files that are not images"):
        images(tmp_path / "text")
    with pytest.raises(FileProblem, match=r"emty: there is no such folder\n  Did you mean .*empty"):
        images(tmp_path / "emty")


def bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def animated(format: str) -> bytes:
    frames = [picture(), Image.new("RGB", (40, 30), "red")]
    return encoded(frames[0], format, save_all=True, append_images=frames[1:])


def sixteen_bit() -> bytes:
    return encoded(Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50), "PNG")


BAD = {
    "empty.jpg": (b"", "the file is empty: 0 bytes"),
    "page.jpg": (b"<!DOCTYPE html><p>404", "it is an HTML page, not an image"),
    "noise.jpg": (b"\x01\x02\x03\x04" * 50, "it is something unknown, not an image"),
    "cut.jpg": (JPEG[: len(JPEG) // 2], "the JPEG ends early: it has no end marker"),
    "head.jpg": (JPEG[:100], "the image ends inside its header"),
    "cut.png": (encoded(picture(), "PNG")[:-100], "the PNG ends early: it has no end chunk"),
    "cmyk.jpg": (encoded(picture(mode="CMYK")), "the JPEG is in CMYK"),
    "deep.png": (sixteen_bit(), "it has 16 bits per channel"),
    "moving.gif": (animated("GIF"), "it is animated"),
    "moving.webp": (animated("WEBP"), "it is animated"),
    "moving.png": (animated("PNG"), "it is animated"),
    "bomb.png": (bomb(50_000, 50_000), "50000x50000 pixels: more than 100,000,000 are refused as a decompression bomb"),
    "cut.webp": (encoded(picture(), "WEBP")[:-50], "the WebP ends early"),
    "cut.gif": (encoded(picture(), "GIF")[:20], "the GIF ends early"),
}


def test_what_is_left_out_is_counted_in_another_process_too(tmp_path: Path) -> None:
    save(tmp_path / "a" / "good.png", encoded(picture(), "PNG"))
    save(tmp_path / "a" / "notes.doc", b"words")
    source = pickle.loads(pickle.dumps(images(tmp_path)))
    assert source.list(0, []).counted == images(tmp_path).list(0, []).counted != {}


@pytest.mark.parametrize(("byte", "chunk"), [(-13, "IDAT"), (-1, "IEND")])
def test_a_png_with_a_wrong_checksum_is_refused(tmp_path: Path, byte: int, chunk: str) -> None:
    data = bytearray(encoded(picture(), "PNG"))
    save(tmp_path / "a" / "good.png", bytes(data))
    data[byte] ^= 1
    save(tmp_path / "a" / "bad.png", bytes(data))
    columns, refused = read_all(images(tmp_path))
    assert len(columns["image"]) == 1
    assert f"the checksum of its chunk {chunk} does not match" in str(refused)


@pytest.mark.parametrize("verify", ["decode", "headers"])
@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_refused_one_by_one(tmp_path: Path, name: str, verify: Any) -> None:
    data, reason = BAD[name]
    save(tmp_path / "a" / "good.jpg", JPEG)
    save(tmp_path / "a" / name, data)
    source = images(tmp_path, verify=verify)
    columns, refused = read_all(source)
    assert columns["key"] == [b"a/good.jpg"]
    assert len(refused) == 1
    assert refused[0].stage == "decode"
    assert refused[0].reason.startswith(reason)


def damaged_inside() -> dict[str, bytes]:
    jpeg = bytearray(encoded(Image.effect_noise((200, 200), 80)))
    middle = len(jpeg) // 2
    png = bytearray(encoded(Image.effect_noise((200, 200), 80), "PNG"))
    png[len(png) // 2] ^= 0xFF
    return {"cut.jpg": bytes(jpeg[:middle]) + b"\xff\xd9", "flipped.png": bytes(png)}


@pytest.mark.parametrize("name", ["cut.jpg", "flipped.png"])
def test_decoding_finds_what_headers_do_not_tell(tmp_path: Path, name: str) -> None:
    save(tmp_path / "a" / name, damaged_inside()[name])
    assert not read_all(images(tmp_path, verify="headers"))[1]
    (refused,) = read_all(images(tmp_path))[1]
    assert "cannot be decoded" in refused.reason or "the checksum of its chunk IDAT" in refused.reason


def test_what_is_unusual_can_be_allowed(tmp_path: Path) -> None:
    for name in ("cmyk.jpg", "deep.png", "moving.gif"):
        save(tmp_path / "a" / name, BAD[name][0])
    columns, refused = read_all(images(tmp_path, allow=["cmyk", "16-bit", "animated"]))
    assert not refused
    assert columns["image/channels"] == [3, 1, 3]
    assert images(tmp_path, allow="cmyk, 16-bit,animated").describe()["allow"] == ["cmyk", "16-bit", "animated"]
    with pytest.raises(ValueError, match=r"allow must be among cmyk, 16-bit, animated; got '16bit'"):
        images(tmp_path, allow=["16bit"])


def test_the_format_is_told_by_the_bytes_not_the_name(tmp_path: Path) -> None:
    png = encoded(picture(), "PNG")
    save(tmp_path / "a" / "really-a-png.jpg", png)
    columns, refused = read_all(images(tmp_path))
    assert columns["image"] == [png]
    assert not refused


EVERY_KIND = [
    *(("JPEG", mode) for mode in ("RGB", "L")),
    *((format, mode) for format in ("PNG", "WEBP", "BMP", "GIF", "TIFF") for mode in ("RGB", "L", "RGBA", "P")),
]


@pytest.mark.parametrize(("format", "mode"), EVERY_KIND)
@pytest.mark.parametrize("verify", ["decode", "headers"])
def test_every_format(tmp_path: Path, format: str, verify: Any, mode: str) -> None:
    data = encoded(picture(mode=mode), format)
    save(tmp_path / "a" / f"1.{format.lower()}", data)
    columns, refused = read_all(images(tmp_path, verify=verify))
    assert not refused
    assert (columns["image"], columns["image/width"], columns["image/height"]) == ([data], [40], [30])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_pending_rotation_is_made_and_counted(tmp_path: Path, orientation: int, format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(picture(), format, exif=exif)
    save(tmp_path / "a" / "1.jpg", data)
    source = images(tmp_path)
    (block,) = source.read(0, np.array([0]))
    stored = block.columns["image"][0]
    size = (30, 40) if orientation >= 5 else (40, 30)
    assert (block.columns["image/width"][0], block.columns["image/height"][0]) == size
    upright = Image.open(io.BytesIO(stored))
    assert upright.size == size
    assert upright.getexif().get(0x0112, 1) == 1
    if orientation == 1:
        assert stored == data
        assert not block.counted
    else:
        assert block.counted == {"images turned upright": 1}
        wanted = np.asarray(_turned(picture(), orientation), int)
        assert np.abs(np.asarray(upright.convert("RGB"), int) - wanted).mean() < 6
    kept, _ = read_all(images(tmp_path, keep_bytes=True))
    assert kept["image"] == [data]


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    turn = Image.Transpose
    steps = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }
    return image.transpose(steps[orientation])


def test_progressive_and_rarely_sampled_jpegs_decode(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.jpg", encoded(picture(), progressive=True))
    save(tmp_path / "a" / "2.jpg", encoded(picture(), subsampling="4:1:1"))
    save(tmp_path / "a" / "3.jpg", JPEG + b"trailing bytes" * 10)
    assert not read_all(images(tmp_path))[1]


def test_without_verification_bytes_pass_unseen(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.jpg", b"anything")
    source = images(tmp_path, verify="none")
    assert list(source.schema()) == ["image", "label", "key"]
    assert read_all(source)[0] == {"image": [b"anything"], "label": [b"a"], "key": [b"a/1.jpg"]}
    with pytest.raises(ValueError, match=r"verify must be one of decode, headers, none; got 'fast'"):
        images(tmp_path, verify="fast")  # type: ignore[arg-type]


def test_a_file_that_vanished_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.jpg", JPEG)
    gone = save(tmp_path / "a" / "2.jpg", JPEG)
    source = images(tmp_path)
    source.schema()
    gone.unlink()
    columns, refused = read_all(source)
    assert columns["key"] == [b"a/1.jpg"]
    assert refused == [(1, "read", "no such file or directory")]


def test_rows_come_in_the_order_asked_for(tmp_path: Path) -> None:
    for i in range(5):
        save(tmp_path / "a" / f"{i}.jpg", encoded(picture(40 + i)))
    (block,) = images(tmp_path).read(0, np.array([3, 0, 4]))
    assert block.columns["image/width"].tolist() == [43, 40, 44]


def test_pickled_it_reads_what_was_listed(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.jpg", JPEG)
    source = images(tmp_path)
    data = pickle.dumps(source)
    assert len(data) < 1000
    save(tmp_path / "a" / "0.jpg", JPEG)
    again = pickle.loads(data)
    assert keys_of(again) == ["a/1.jpg"]
    assert read_all(again) == read_all(source)
    assert images(tmp_path).fingerprint() != again.fingerprint() == source.fingerprint()
    assert source.locate(0, 0) == str(tmp_path / "a" / "1.jpg")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_a_header_cut_anywhere_is_bad_or_whole_but_never_a_crash(format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(picture(), format, exif=exif) if format in ("JPEG", "PNG", "WEBP") else encoded(picture(), format)
    for end in range(min(len(data), 700)):
        with contextlib.suppress(BadImage):
            parse_header(data[:end])
    for at in range(min(len(data), 300)):
        flipped = bytearray(data)
        flipped[at] ^= 0xFF
        with contextlib.suppress(BadImage):
            parse_header(bytes(flipped))


def test_a_folder_given_with_a_slash_leads_back_to_plain_paths(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "1.png")
    assert images(f"{tmp_path}/").locate(0, 0) == str(tmp_path / "cat" / "1.png")


@pytest.mark.parametrize("verify", ["decode", "headers", "none"])
def test_images_looked_at_in_a_column_are_judged_as_one_by_one(verify: Any) -> None:
    turned = encoded(picture(), exif=_exif(6))
    given = [
        encoded(picture(8, 9)),
        turned,
        b"",
        encoded(picture(), "PNG"),
        encoded(picture(mode="L")),
        encoded(picture(mode="CMYK")),
        encoded(picture())[:-40],
        encoded(picture(), exif=_exif(1)),
        encoded(picture(200, 100)),
        b"no image at all",
        encoded(picture(mode="RGBA"), "PNG"),
        encoded(picture(mode="LA"), "PNG"),
        encoded(picture(mode="P"), "PNG", transparency=0),
        encoded(picture(), "PNG")[:-40],
        _flipped(encoded(picture(), "PNG"), -30),
        _flipped(encoded(picture(40, 50)), -30),
        encoded(picture(), "PNG", exif=_exif(8)),
        encoded(picture(), "PNG", save_all=True, append_images=[picture()]),
        encoded(picture(mode="I;16"), "PNG"),
        encoded(picture(), "WEBP"),
    ]
    check = ImageCheck(verify, max_pixels=15_000)
    found = check.check_all(BytesColumn.of(given), "image")
    turned_upright = 0
    for row, data in enumerate(given):
        if row in found.bad:
            with pytest.raises(BadImage, match=re.escape(found.bad[row])):
                check.check(data)
            continue
        kept, header = (data, None) if verify == "none" else check.check(data)
        at = found.rows.index(row)
        turned_upright += kept is not data
        assert found.columns["image"][at] == kept
        if header is not None:
            sizes = tuple(found.columns[f"image/{name}"][at] for name in ("height", "width", "channels"))
            assert sizes == (header.height, header.width, header.channels)
    assert len(found.rows) + len(found.bad) == len(given)
    assert found.counted == ({"images turned upright": turned_upright} if turned_upright else {})


def _flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0x55
    return bytes(changed)


def _exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def test_a_file_that_changed_or_went_since_it_was_listed_does_not_take_others_with_it(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        save(tmp_path / "cats" / f"{name}.jpg", encoded(picture()))
    source = images(tmp_path)
    assert len(source.files) == 3
    other = encoded(picture(64, 64))
    (tmp_path / "cats" / "a.jpg").write_bytes(other)
    (tmp_path / "cats" / "b.jpg").unlink()
    (block,) = source.read(0, np.arange(3))
    assert block.rows.tolist() == [0, 2]
    assert block.columns["image"][0] == other
    assert [(bad.row, bad.stage, bad.reason) for bad in block.refused] == [(1, "read", "no such file or directory")]


def test_an_image_without_a_suffix_is_one_by_its_bytes(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(3):
            (tmp_path / label / f"img{number}").write_bytes(encode_image(photo(number, 8, 8), "JPEG"))
    (tmp_path / "cat" / "LICENSE").write_text("free")
    source = open_source(tmp_path)
    assert listed(source, "label") == [b"cat"] * 3 + [b"dog"] * 3
    assert source.list(0, []).counted == {"files that are not images": 1}
    columns, refused = read_all(source)
    assert (columns["image/height"], refused) == ([8] * 6, [])
