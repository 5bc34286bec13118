"""What the page is told: the overview, records by number, and finding them."""

import json
from pathlib import Path

import numpy as np
import pytest
from looking import Page, page_of
from pictures import encode_image, photo
from support import example, flip, write_records

import bushel
from bushel.viewing import opened as viewing_opened
from bushel.viewing.opened import open_all
from bushel.viewing.viewer import Viewer


@pytest.fixture(scope="module")
def pictures(images: Path) -> Page:
    return page_of(images)


@pytest.fixture(scope="module")
def mixed(everything: Path) -> Page:
    return page_of(everything)


def test_the_overview_counts_by_the_manifest(pictures: Page) -> None:
    (dataset,) = pictures.ask("overview")["datasets"]
    assert sum(split["records"] for split in dataset["splits"]) == 90
    assert dataset["classes"] == ["cat", "dog", "owl"]
    assert {feature["name"]: feature["role"] for feature in dataset["features"]}["image"] == "image"
    numbers = pictures.ask("statistics", split="train")
    assert sum(numbers["classes"].values()) == numbers["records"] == numbers["of"]
    assert numbers["features"]["image"]["widths"]["low"] == 32


def test_samples_have_records_of_each_class(pictures: Page, images: Path) -> None:
    found = pictures.ask("samples")
    assert (found["form"], found["names"], found["classes"]) == ("tiles", ["image"], 3)
    train = bushel.open(images)["train"]
    for at, strip in enumerate(found["strips"]):
        assert strip["name"] == ("cat", "dog", "owl")[at]
        assert len(strip["records"]) == 8
        assert {train[record["row"]]["label"] for record in strip["records"]} == {at}
        assert all(set(record["fields"]) == {"image", "label"} for record in strip["records"])


def test_samples_without_classes_are_spread_over_the_records(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        for number in range(100):
            writer.write({"text": f"a sentence that is different from all the others: {number}", "kind": "note"})
    found = page_of(tmp_path / "x.tfrecord").ask("samples")
    (strip,) = found["strips"]
    rows = [record["row"] for record in strip["records"]]
    assert (found["names"], found["classes"], len(rows)) == (["text"], 0, 16)
    assert (rows[0], rows[-1]) == (0, 99)


def test_a_damaged_record_and_missing_labels_leave_the_other_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(41):
            label = {"label": ["no", "yes"][number % 2]} if number % 10 else {}
            writer.write({"text": f"a sentence that is different from all the others: {number}", **label})
    flip(path, at=path.stat().st_size // 2)
    found = page_of(path).ask("samples")
    assert [(strip["name"], len(strip["records"])) for strip in found["strips"]] == [("no", 8), ("yes", 8)]
    assert not any(record["problem"] for strip in found["strips"] for record in strip["records"])


def test_a_dataset_without_records_has_no_samples(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(b"")
    page = page_of(tmp_path / "x.tfrecord")
    assert page.ask("samples")["strips"] == []
    assert page.ask("columns")["splits"][0]["of"] == 0


def test_columns_have_the_same_steps_in_all_splits(tmp_path: Path) -> None:
    rows = [{"x": float(n), "city": ["Bern", "Rome"][n >= 60], "split": "train"} for n in range(60)]
    rows += [{"x": float(n), "city": "Rome", "split": "val"} for n in range(60, 80)]
    bushel.build(iter(rows), tmp_path / "data", split="split")
    found = page_of(tmp_path / "data").ask("columns")
    assert [split["name"] for split in found["splits"]] == ["train", "val"]
    numbers = found["columns"]["x"]
    assert (numbers["low"], numbers["high"]) == (0, 79)
    assert [[share > 0 for share in bins].index(True) for bins in numbers["bins"]] == [0, 18]
    city = found["columns"]["city"]
    assert (city["values"], city["bins"]) == (["Bern", "Rome"], [[1, 0], [0, 1]])


def test_roles_are_guessed_from_names_types_and_values(mixed: Page) -> None:
    (dataset,) = mixed.ask("overview")["datasets"]
    roles = {feature["name"]: feature["role"] for feature in dataset["features"]}
    assert roles == {
        "audio": "audio",
        "blob": "bytes",
        "image": "image",
        "image/object/bbox/xmax": "boxes",
        "image/object/bbox/xmin": "boxes",
        "image/object/bbox/ymax": "boxes",
        "image/object/bbox/ymin": "boxes",
        "image/object/class/text": "text",
        "label": "label",
        "series": "series",
        "text": "text",
        "tokens": "tokens",
    }


def test_a_role_can_be_changed_in_the_address(mixed: Page) -> None:
    (field,) = [f for f in mixed.ask("record", row=1, roles="series:embedding")["fields"] if f["name"] == "series"]
    assert field["role"] == "embedding"
    assert mixed.ask("record", row=1, roles="series:nonsense,none:image")["fields"]


def test_swapped_boxes_are_marked(mixed: Page) -> None:
    good, bad = mixed.ask("record", row=0)["boxes"]
    assert good["bad"] == ""
    assert good["name"] == "cat"
    assert bad["bad"] == "its sides are swapped"


@pytest.mark.parametrize(
    ("box", "why"),
    [
        ((0.2, 0.2, 1.0, 1.0), ""),
        ((0.2, 0.2, 1.3, 0.9), "it is out of range"),
        ((-0.2, 0.2, 0.3, 0.9), "it is out of range"),
        ((3.0, 2.0, 30.0, 20.0), ""),  # pixels of an image of 30 x 20
        ((3.0, 2.0, 31.0, 20.0), "it is out of range"),
        ((3.0, 9.0, 8.0, 4.0), "its sides are swapped"),
    ],
)
def test_boxes_beyond_the_image_are_out_of_range(box: tuple[float, ...], why: str, tmp_path: Path) -> None:
    sides = dict(zip(("box/xmin", "box/ymin", "box/xmax", "box/ymax"), np.array(box, np.float32), strict=True))
    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        writer.write({"image": encode_image(photo(1, 20, 30), "png"), **{name: [side] for name, side in sides.items()}})
    (found,) = page_of(tmp_path / "x.tfrecord").ask("record", row=0)["boxes"]
    assert found["bad"] == why


def test_sound_plays_as_a_wav(mixed: Page) -> None:
    answer = mixed.get("api/audio", row=0, feature="audio")
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.content.startswith(b"RIFF")
    assert mixed.get("api/audio", row=0, feature="text").status_code == 422


def test_a_record_has_its_place_its_checksum_and_code_that_opens_it(pictures: Page, images: Path) -> None:
    found = pictures.ask("record", split="train", row=40)
    train = bushel.open(images)["train"]
    shard, record = train.shards.locate(40)
    assert found["place"]["shard"] == str(shard.path)
    assert found["place"]["record"] == record
    assert found["place"]["byte"] == int(shard.index.offsets[record])
    assert found["key"] == train[40]["key"]
    assert eval(found["code"]["python"])["key"] == found["key"]
    raw = bytes.fromhex(pictures.ask("hex", split="train", row=40)["hex"])
    assert shard.path.read_bytes()[found["place"]["byte"] :].startswith(raw)
    assert found["place"]["checksum"] == f"{int.from_bytes(raw_footer(shard, record), 'little'):08x}"


def test_code_opens_the_record_of_one_file_among_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            writer.write({"x": name})
    page = page_of(tmp_path / "b.tfrecord")
    code = page.ask("record", row=0)["code"]
    assert eval(code["python"])["x"] == "b"
    assert code["command"] == f"bushel cat {tmp_path / 'b.tfrecord'} --record all:0"
    assert page.ask("overview")["datasets"][0]["name"] == "b.tfrecord"


def test_a_folder_of_tfx_goes_by_its_own_name(tmp_path: Path) -> None:
    for split in ("train", "eval"):
        (tmp_path / "examples" / f"Split-{split}").mkdir(parents=True)
        with bushel.Writer(tmp_path / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz") as writer:
            writer.write({"x": split})
    page = page_of(tmp_path / "examples")
    (found,) = page.ask("overview")["datasets"]
    assert (found["name"], {split["name"] for split in found["splits"]}) == ("examples", {"train", "val"})
    assert eval(page.ask("record", split="train", row=0)["code"]["python"])["x"] == "train"


def test_a_folder_of_tensorflow_datasets_has_its_name_and_its_types(tmp_path: Path) -> None:
    folder = tmp_path / "counts" / "1.0.0"
    folder.mkdir(parents=True)
    write_records(folder / "counts-train.tfrecord-00000-of-00001", [example({"big": [-1]}), example({"big": [1]})])
    info = {"name": "counts", "splits": [{"name": "train", "shardLengths": ["2"]}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    kind = {"pythonClassName": "x.Tensor", "tensor": {"dtype": "uint64", "shape": {}}}
    (folder / "features.json").write_text(
        json.dumps({"pythonClassName": "", "featuresDict": {"features": {"big": kind}}})
    )
    page = page_of(folder)
    (found,) = page.ask("overview")["datasets"]
    assert (found["name"], found["is_built"]) == ("counts/1.0.0", False)
    assert page.ask("statistics")["features"]["big"]["values"]["high"] == 2.0**64
    assert page.ask("record", row=0)["fields"][0]["text"] == str(2**64 - 1)


def raw_footer(shard: object, record: int) -> bytes:
    end = int(shard.index.offsets[record]) + 12 + int(shard.index.lengths[record])
    return shard.path.read_bytes()[end : end + 4]


def test_records_are_paged_and_only_their_shard_is_opened(images: Path) -> None:
    page = page_of(images)
    part = page.viewer.opened[0].parts["train"]
    last = page.ask("records", split="train", start=len(part) - 2)
    assert [record["row"] for record in last["records"]] == [len(part) - 2, len(part) - 1]
    assert list(part._at_hand) == [1]


def test_conditions_texts_and_orders_find_records(pictures: Page, images: Path) -> None:
    train = bushel.open(images)["train"]
    cats = pictures.ask("records", split="train", where="label == 'cat'")
    assert cats["total"] == len(train.filter("label == 'cat'"))
    keys = pictures.ask("records", split="train", text="CAT/00")
    assert {record["fields"]["key"]["text"][:6] for record in keys["records"]} == {"cat/00"}
    sized = pictures.ask("records", split="train", sort="size", desc=1)["records"]
    sizes = [record["bytes"] for record in sized]
    assert sizes == sorted(sizes, reverse=True)
    named = pictures.ask("records", split="train", sort="key")["records"]
    texts = [record["fields"]["key"]["text"] for record in named]
    assert texts == sorted(texts)
    high = pictures.ask("records", split="train", where="label != 'owl'", sort="image/height")["records"]
    heights = [int(record["fields"]["image/height"]["text"]) for record in high]
    assert heights == sorted(heights)
    long = pictures.ask("records", split="train", sort="length(key)")
    assert long["total"] == len(train)


def test_records_are_sorted_by_brightness(pictures: Page, images: Path) -> None:
    from io import BytesIO

    from PIL import Image

    train = bushel.open(images)["train"]
    rows = [record["row"] for record in pictures.ask("records", split="train", sort="brightness")["records"]]
    light = [np.asarray(Image.open(BytesIO(train[row]["image"])).convert("L")).mean() for row in rows]
    assert np.all(np.diff(light) > -1)


def test_a_condition_that_is_not_understood_shows_where(pictures: Page) -> None:
    answer = pictures.get("api/records", split="train", where="label = 'cat'")
    assert answer.status_code == 400
    assert "write '=='" in answer.json()["error"]
    assert pictures.get("api/records", split="train", sort="nothing").status_code == 400


def test_files_without_an_index_can_be_seen_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(300):
                writer.write({"x": number, "name": name})
    page = Page(Viewer(open_all([tmp_path])))
    part = page.viewer.opened[0].part(None)
    seen: dict[int, dict] = {}
    original = viewing_opened.OpenedSplit.shard

    def looking(self: viewing_opened.OpenedSplit, number: int) -> object:
        if number == len(self._counts) and number not in seen:  # its index is made next
            seen[number] = {}
            seen[number] = page.ask("records", count=10)
        return original(self, number)

    monkeypatch.setattr(viewing_opened.OpenedSplit, "shard", looking)
    part.count()
    assert [(found["total"], found["is_whole"]) for found in seen.values()] == [(256, False), (556, False)]
    assert seen[0]["records"][3]["fields"]["x"]["text"] == "3"
    assert page.ask("records")["total"] == 600


def test_records_that_are_not_examples_are_shown_as_bytes(tmp_path: Path) -> None:
    page = page_of(write_records(tmp_path / "x.tfrecord", [b"\xff\xfe any bytes", b"\xff others"]))
    (dataset,) = page.ask("overview")["datasets"]
    assert "not Examples" in dataset["problems"][0]
    assert page.ask("records")["records"][0]["preview"].startswith("ff fe 20")
    assert page.ask("record", row=1)["fields"] == []


def test_compressed_files_are_shown(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord.gz", compression="gzip") as writer:
        for number in range(20):
            writer.write({"x": number})
    page = page_of(tmp_path / "x.tfrecord.gz")
    assert page.ask("records", start=15)["records"][0]["fields"]["x"]["text"] == "15"
    assert page.ask("records", where="x > 17")["total"] == 2


def test_values_that_do_not_fit_the_schema_are_shown_as_they_are(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        for number in range(1100):
            writer.write({"x": number})
    with bushel.Writer(tmp_path / "b.tfrecord") as writer:
        writer.write({"x": ["other", "kind"], "y": 1.5})
    page = page_of(tmp_path)
    assert page.ask("record", row=1100)["fields"][0]["texts"] == ["other", "kind"]


def test_several_datasets_are_open_at_once(images: Path, everything: Path) -> None:
    page = page_of(images, everything)
    assert [dataset["name"] for dataset in page.ask("overview")["datasets"]] == ["data", "mixed.tfrecord"]
    assert page.ask("records", d=1)["total"] == 12
    assert page.get("api/records", d=2).status_code == 404


def test_tokens_are_shown_as_the_words_of_the_vocabulary(tmp_path: Path) -> None:
    from bushel import transforms as t

    rows = [{"text": f"the cat sat on mat {n % 3}", "label": n % 2} for n in range(12)]
    bushel.build(iter(rows), tmp_path / "data", transforms=[t.tokenise("text", length=8, out="tokens")], order="source")
    (field,) = [f for f in page_of(tmp_path / "data").ask("record", row=1)["fields"] if f["name"] == "tokens"]
    assert field["text"] == "the cat sat on mat 1"
    assert field["ids"].endswith("0, 0")


def test_keypoints_are_drawn_from_pairs_of_lists_and_from_rows(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        x, y = np.array([0.1, 0.5], np.float32), np.array([0.25, 0.75], np.float32)
        writer.write({"keypoint/x": x, "keypoint/y": y})
    points = page_of(tmp_path / "x.tfrecord").ask("record", row=0)["points"]
    assert np.allclose(points, [[0.1, 0.25], [0.5, 0.75]])


def test_a_role_is_found_for_clips_masks_and_embeddings() -> None:
    from bushel.data.roles import take_account
    from bushel.data.schema import Feature, Schema
    from bushel.viewing.opened import shown_as

    schema = Schema.of(
        clip=Feature(dtype="uint8", shape=(4, 16, 16, 3)),
        mask=Feature(dtype="uint8", shape=(16, 16)),
        photo=Feature(dtype="float32", shape=(16, 16, 3)),
        embedding=Feature(dtype="float32", shape=(64,)),
        signal=Feature(dtype="float32", shape=(200, 3)),
        y=Feature(dtype="int64"),
        boxes=Feature(dtype="float32", shape=(3, 4)),
    )
    sample = {name: np.zeros(feature.shape, feature.dtype) for name, feature in schema.features.items()}
    assert shown_as(take_account(schema, [sample])) == {
        "clip": "frames",
        "mask": "mask",
        "photo": "image",
        "embedding": "embedding",
        "signal": "series",
        "y": "label",
        "boxes": "boxes",
    }
