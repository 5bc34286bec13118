"""What is wrong, what is there twice, what was refused, how two splits differ, what a model sees, and runs."""

import json
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looking import Page, page_of
from pictures import encode_image, photo

import bushel
from bushel import transforms as t
from bushel.errors import BushelError, FileProblem, FormatError
from bushel.sources.marked import last_marks
from bushel.viewing.server import view
from bushel.viewing.viewer import open_viewer


def finished(page: Page, name: str) -> dict:
    for _ in range(600):
        found = page.ask(name)
        if found["state"] in ("done", "failed"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{name} does not end")


@pytest.fixture(scope="module")
def pictures(images: Path) -> Page:
    return page_of(images)


def test_findings_lead_to_their_records(tmp_path: Path) -> None:
    rows = [{"text": f"a sentence that is long enough {n % 20}", "label": n % 2} for n in range(41)]
    bushel.build(iter(rows), tmp_path / "data")
    page = page_of(tmp_path / "data")
    assert page.ask("findings")["state"] == "none"
    page.tell("check", {"d": 0})
    found = finished(page, "findings")
    numbers = {one["rule"]: at for at, one in enumerate(found["findings"])}
    at = numbers["SPL008"]
    assert found["findings"][at]["places"]["train"] > 0
    records = page.ask("records", split="train", list=f"finding:{at}")
    assert records["total"] == found["findings"][at]["places"]["train"]


def test_copies_are_shown_two_by_two(tmp_path: Path) -> None:
    rows = [{"text": f"a sentence that is long enough to be seen {n % 38}", "label": n % 2} for n in range(41)]
    bushel.build(iter(rows), tmp_path / "data")
    page = page_of(tmp_path / "data")
    page.tell("check", {"d": 0})
    findings = finished(page, "findings")["findings"]
    (copies,) = [one for one in findings if one["rule"] == "SPL008"]
    assert len(copies["groups"]) == 3
    for group in copies["groups"]:
        one, other = group
        assert one["row"] != other["row"]
        assert one["fields"]["text"] == other["fields"]["text"]


def test_a_suspected_label_is_shown_with_the_neighbours_that_contradict_it(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [{"x": draw.normal(6 * (n % 2), 1, 8), "label": "ab"[(n % 2) ^ (n % 20 == 0)]} for n in range(400)]
    bushel.build(iter(rows), tmp_path / "data")
    page = page_of(tmp_path / "data")
    page.tell("check", {"d": 0})
    finished(page, "findings")
    finished(page, "suspects")
    (suspected,) = [one for one in page.ask("findings")["findings"] if one["rule"] == "LBL010"]
    for suspect, *neighbours in suspected["groups"]:
        assert len(neighbours) == 3
        assert suspect["fields"]["label"]["text"] not in {one["fields"]["label"]["text"] for one in neighbours}


def test_duplicates_are_found_over_all_splits(pictures: Page, images: Path) -> None:
    pictures.tell("duplicates", {"d": 0})
    found = finished(pictures, "duplicates")
    assert (found["count"], found["extra"]) == (3, 3)
    data = bushel.open(images)
    for group in found["groups"]:
        contents = {data[one["split"]][one["row"]]["image"] for one in group}
        assert len(group) == 2
        assert len(contents) == 1
    split = found["groups"][0][0]["split"]
    assert pictures.ask("records", split=split, list="duplicates")["total"] >= 1


def test_the_quarantine_says_what_was_refused_and_why(tmp_path: Path) -> None:
    for number in range(6):
        place = tmp_path / "photos" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        data = encode_image(photo(number, 12, 12), "png")
        (place / f"{number}.png").write_bytes(data if number else data[:60])
    bushel.build(tmp_path / "photos", tmp_path / "data")
    found = page_of(tmp_path / "data").ask("quarantine")
    assert found["total"] == 1
    assert found["entries"][0]["source"].endswith("a/0.png")
    assert found["reasons"][0][1] == 1


def test_a_quarantine_that_is_a_link_out_of_the_data_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    bushel.build(tmp_path / "rows.csv", tmp_path / "data")
    (tmp_path / "secret.jsonl").write_text('{"reason": "secret"}\n')
    (tmp_path / "data" / "_quarantine.jsonl").unlink()
    (tmp_path / "data" / "_quarantine.jsonl").symlink_to("../secret.jsonl")
    assert page_of(tmp_path / "data").ask("quarantine")["entries"] == []


def test_two_splits_are_compared(tmp_path: Path) -> None:
    rows = [{"x": float(n), "same": n % 2, "label": ["a", "b"][n % 2], "split": "train"} for n in range(60)]
    rows += [{"x": float(n), "same": n % 2, "label": ["a", "b"][n % 3 == 0], "split": "val"} for n in range(60, 90)]
    bushel.build(iter(rows), tmp_path / "data", split="split")
    found = page_of(tmp_path / "data").ask("compare", split="train", other="val")
    drifts = {feature["name"]: feature["drift"] for feature in found["features"]}
    assert drifts["x"] == 1.0
    assert drifts["same"] == 0.0
    assert [feature["drift"] for feature in found["features"]] == sorted(drifts.values(), reverse=True)
    assert found["classes"] == [["a", 30, 20], ["b", 30, 10]]
    assert found["shared"]["state"] == "none"
    again = page_of(tmp_path / "data").ask("compare", split="train", other="train")
    assert max(feature["drift"] for feature in again["features"]) == 0


def test_contents_that_two_datasets_share_are_found(tmp_path: Path) -> None:
    for name, first in (("one", 0), ("two", 15)):
        rows = [{"text": f"a sentence with number {first + n}", "label": n % 2} for n in range(20)]
        bushel.build(iter(rows), tmp_path / name, order="source")
    page = page_of(tmp_path / "one", tmp_path / "two")
    sides = {"d": 0, "split": "train", "e": 1, "other": "train"}
    page.tell("shared", sides)
    for _ in range(200):
        found = page.ask("compare", **sides)["shared"]
        if found["state"] == "done":
            break
        time.sleep(0.05)
    assert found["count"] == 5
    assert sorted(found["pairs"]) == [[15 + n, n] for n in range(5)]


def test_a_model_sees_augmented_images_in_its_range(pictures: Page) -> None:
    found = pictures.ask("batches", split="train", size=16, augment="flip", range="-1..1")
    (image,) = found["inputs"]
    assert (image["name"], image["shape"][1:], image["dtype"]) == ("image", [16, 16, 3], "float32")
    assert -1 <= image["low"] < 0 < image["high"] <= 1
    cells = [record["cells"]["image"] for record in found["records"]]
    assert all(cell["stored"]["pictures"][0].startswith("data:image/png;base64,") for cell in cells)
    changed = [cell["stored"] != cell["fed"] for cell in cells]
    assert any(changed)
    assert not all(changed)
    assert "did you mean" in pictures.get("api/batches", augment="flipp").json()["error"]


def test_a_model_sees_tables_texts_series_and_tokens(tmp_path: Path) -> None:
    rows = [
        {
            "age": number,
            "fare": None if number == 2 else number / 2,
            "city": ("Bern", "Basel")[number % 2],
            "review": f"a fine day number {number}",
            "signal": np.sin(np.arange(60, dtype=np.float32) + number).reshape(30, 2),
            "label": number % 2,
        }
        for number in range(40)
    ]
    steps = [t.tokenise("review", length=8, out="tokens")]
    bushel.build(iter(rows), tmp_path / "data", transforms=steps, order="source")
    found = page_of(tmp_path / "data").ask("batches", augment="scale=0.1")
    inputs = {one["name"]: one for one in found["inputs"]}
    assert {name: one["kind"] for name, one in inputs.items()} == {
        "age": "number",
        "city": "category",
        "fare": "number",
        "review": "text",
        "signal": "series",
        "tokens": "tokens",
    }
    assert (inputs["fare"]["missing"], inputs["fare"]["low"]) == (1, 0.0)
    assert inputs["signal"]["shape"] == [24, 30, 2]
    cells = found["records"][3]["cells"]
    assert cells["city"]["fed"]["text"] == "Basel"
    assert cells["age"]["stored"]["text"] == "3"
    assert cells["age"]["fed"]["text"] != "3"  # scaled by up to a tenth
    assert cells["signal"]["fed"]["kind"] == "line"
    assert cells["tokens"]["stored"]["text"] == "a fine day number 3"
    assert cells["tokens"]["fed"]["kind"] == "list"
    assert found["records"][2]["cells"]["fare"]["stored"] == {}


def test_broken_pictures_are_not_fed(everything: Path) -> None:
    found = page_of(everything).ask("batches")
    assert "image" in [one["name"] for one in found["inputs"]]
    assert [record["row"] for record in found["records"]] == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11]


def test_a_model_sees_the_spectrum_of_a_sound(tmp_path: Path) -> None:
    for number in range(6):
        place = tmp_path / "sounds" / ("high", "low")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        with wave.open(str(place / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((np.sin(np.arange(4000) / (5 + number)) * 9000).astype("<i2").tobytes())
    bushel.build(tmp_path / "sounds", tmp_path / "data")
    found = page_of(tmp_path / "data").ask("batches")
    (sound,) = found["inputs"]
    assert sound["kind"] == "image"
    cell = found["records"][0]["cells"][sound["name"]]
    assert (cell["stored"]["kind"], cell["fed"]["kind"]) == ("audio", "pictures")


def test_the_records_of_a_run_come_by_loss_and_by_cell(judged: Path, images: Path) -> None:
    page = Page(open_viewer([judged]))
    assert [dataset["where"] for dataset in page.ask("overview")["datasets"]] == [str(images)]
    found = page.ask("run", run=0)
    assert found["places"] == [{"d": 0, "split": "test"}]
    count = len(bushel.open(images)["test"])
    assert sum(map(sum, found["confusion"])) == found["judged"] == count
    worst = page.ask("records", split="test", list="run:0")["records"]
    assert [record["row"] for record in worst] == list(range(count))[::-1]
    assert worst[0]["predicted"]["loss"] == count - 1
    wrong = page.ask("records", split="test", list="run:0:0")["records"]
    assert all(record["predicted"]["label"] != record["predicted"]["predicted"] for record in wrong)
    cell = page.ask("records", split="test", list="run:0:1:0")
    assert cell["total"] == found["confusion"][1][0]
    assert page.ask("record", split="test", row=0)["predicted"][0]["predicted"] == "cat"


def test_predictions_that_are_damaged_are_an_error(judged: Path) -> None:
    (judged / "predictions.npz").write_bytes(b"PK nothing")
    page = Page(open_viewer([judged]))
    assert "not the predictions of a run" in page.get("api/run", run=0).json()["error"]


def test_a_prediction_that_is_no_class_is_left_out_of_the_confusions(judged: Path) -> None:
    with np.load(judged / "predictions.npz") as file:
        columns = dict(file)
    columns["predicted"][:2] = (99, -1)
    np.savez(judged / "predictions.npz", **columns)
    confusion = Page(open_viewer([judged])).ask("run")["confusion"]
    assert sum(map(sum, confusion)) == len(columns["loss"]) - 2


def test_marks_are_lines_of_which_the_last_counts(images: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks.jsonl"
    page = Page(open_viewer([images], marks=marks))
    for row, kind, label in ((3, "drop", ""), (4, "label", "owl"), (5, "look", ""), (3, "none", "")):
        page.tell("marks", {"d": 0, "split": "train", "row": row, "mark": kind, "label": label})
    keys = [bushel.open(images)["train"][row]["key"] for row in range(6)]
    assert {mark.key: (mark.mark, mark.label) for mark in last_marks(marks).values()} == {
        keys[4]: ("label", "owl"),
        keys[5]: ("look", ""),
    }
    assert len(marks.read_text().splitlines()) == 4
    again = Page(open_viewer([images], marks=marks))
    assert again.ask("record", split="train", row=4)["mark"] == {"mark": "label", "label": "owl"}
    assert again.ask("records", split="train", list="marked")["total"] == 2
    bad = again.http.post("/a-token/api/marks", json={"d": 0, "split": "train", "row": 1, "mark": "burn"})
    assert bad.status_code == 400


def test_marks_never_go_into_the_dataset(images: Path) -> None:
    with pytest.raises(FileProblem, match="is inside the dataset"):
        open_viewer([images], marks=images / "marks.jsonl")
    answer = page_of(images).http.post("/a-token/api/marks", json={"d": 0, "row": 0, "mark": "drop"})
    assert "--marks FILE" in answer.json()["error"]


def test_a_build_leaves_out_and_relabels_what_is_marked(images: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks.jsonl"
    page = Page(open_viewer([images], marks=marks))
    for row, kind, label in ((3, "drop", ""), (4, "label", "owl"), (5, "look", "")):
        page.tell("marks", {"d": 0, "split": "train", "row": row, "mark": kind, "label": label})
    keys = [bushel.open(images)["train"][row]["key"] for row in range(6)]
    for number, source in enumerate((images.parent / "photos", images)):
        opened = bushel.sources.open_source(source, marks=str(marks))
        out = tmp_path / f"out{number}"
        bushel.build(opened, out, run=bushel.Run(workers=number + 1))
        data = bushel.open(out)
        frames = [data[split].to_pandas(["key", "label"]) for split in data]
        labels = {key: label for frame in frames for key, label in frame.itertuples(index=False)}
        assert len(labels) == 89
        assert keys[3] not in labels
        assert labels[keys[4]] == "owl"
        assert labels[keys[5]] == keys[5].split("/")[0]
        counted = data.manifest.counted
        assert (counted["samples dropped by marks"], counted["labels changed by marks"]) == (1, 1)
    for record in range(60, 64):  # rows of the source have other numbers after those that were dropped
        found = bushel.provenance(tmp_path / "out0", "train", record)
        assert found.source.endswith(found.key)


def test_records_of_foreign_files_are_marked_by_digest_and_number(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 8)):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(8):
                writer.write({"x": float(first + number), "label": number % 2})
    marks = tmp_path / "marks.jsonl"
    page = Page(open_viewer([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"], marks=marks))
    page.viewer.opened[0].count()
    page.tell("marks", {"d": 0, "row": 10, "mark": "drop"})
    page.tell("marks", {"d": 0, "row": 3, "mark": "label", "label": "0"})
    assert page.ask("record", row=10)["mark"]["mark"] == "drop"
    again = Page(open_viewer([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"], marks=marks))
    again.viewer.opened[0].count()
    assert again.ask("record", row=10)["mark"]["mark"] == "drop"
    assert again.ask("record", row=11)["mark"]["mark"] == ""
    opened = bushel.sources.open_source(str(tmp_path / "*.tfrecord"), marks=str(marks))
    bushel.build(opened, tmp_path / "out", order="source")
    train = bushel.open(tmp_path / "out")["train"]
    assert train.values("x").tolist() == [number for number in range(16) if number != 10]
    assert train[3]["label"] == 0


def test_marks_that_match_nothing_and_damaged_lines_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n3,a\n")
    marks = tmp_path / "marks.jsonl"
    marks.write_text('{"mark":"drop","key":"99"}\n')
    built = bushel.build(bushel.sources.open_source(tmp_path / "a.csv", marks=str(marks)), tmp_path / "out")
    assert built.manifest.counted == {"marks of samples that are not in the source": 1}
    for line, words in (("{", "line 1 is not a mark"), ('{"mark":"drop"}', "line 1 says neither a key")):
        marks.write_text(line)
        with pytest.raises(FormatError, match=words):
            bushel.sources.open_source(tmp_path / "a.csv", marks=str(marks))
    with pytest.raises(FileProblem, match="no such file of marks"):
        bushel.sources.open_source(tmp_path / "a.csv", marks="nothing.jsonl")


def test_a_split_shows_itself_in_a_notebook(images: Path) -> None:
    import urllib.request

    chosen = bushel.open(images)["train"].filter("label == 'cat'")
    shown = chosen.view(height=300)
    try:
        assert shown._repr_html_().startswith(f'<iframe src="{shown.link}browse"')
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"{shown.link}api/records") as answer:
                    found, policy = json.loads(answer.read()), answer.headers["content-security-policy"]
                break
            except OSError:
                time.sleep(0.05)
        assert found["total"] == len(chosen)
        assert "frame-ancestors http://localhost:*" in policy
    finally:
        shown.stop()
    with pytest.raises(BushelError, match="build it first"):
        view(bushel.open_raw(images.parent / "photos")["train"])


def test_labels_that_neighbours_contradict_are_suspected(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = []
    for number in range(120):
        kind = number % 2
        pixels = np.clip(draw.normal(60 + 130 * kind, 12, (16, 16, 3)), 0, 255).astype(np.uint8)
        label = ("dark", "light")[kind if number != 77 else 1 - kind]
        rows.append({"image": encode_image(pixels, "png"), "label": label, "key": f"k{number}"})
    bushel.build(iter(rows), tmp_path / "data", split="80/20")
    page = page_of(tmp_path / "data")
    assert page.ask("suspects")["state"] == "none"
    page.tell("suspects", {})
    found = finished(page, "suspects")
    (one,) = found["suspects"]
    assert page.ask("record", split=one["split"], row=one["row"])["fields"][1]["text"] == "k77"
    assert (one["label"], one["meant"], one["votes"]) == ("dark", "light", 10)
    assert (found["compared"], found["by"], len(one["neighbours"])) == (120, ["image"], 3)
    assert [r["row"] for r in page.ask("records", split=one["split"], list="suspects")["records"]] == [one["row"]]


@pytest.mark.parametrize(
    ("content", "by"),
    [
        (lambda kind, n: {"text": f"{('rain and wind', 'goals and teams')[kind]} number {n}"}, ["text"]),
        (lambda kind, n: {"a": float(kind * 5 + n % 3), "b": float(n % 7)}, ["a", "b"]),
        (lambda kind, n: {"signal": np.sin(np.arange(40, dtype=np.float32) * (0.1 + kind / 3))}, ["signal"]),
    ],
)
def test_texts_tables_and_series_have_neighbours_too(content: Any, by: list[str], tmp_path: Path) -> None:
    rows = ({**content(n % 2, n), "label": n % 2 if n != 30 else 1} for n in range(80))
    bushel.build(rows, tmp_path / "data", order="source")
    page = page_of(tmp_path / "data")
    page.tell("suspects", {})
    found = finished(page, "suspects")
    assert (found["by"], [one["row"] for one in found["suspects"]]) == (by, [30])


def test_too_few_records_and_labels_that_are_no_classes_say_so(tmp_path: Path) -> None:
    for name, count, label in (("few", 9, lambda n: n % 2), ("many", 400, lambda n: n)):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(count):
                writer.write({"x": float(number), "label": label(number)})
    said = []
    for name in ("few", "many"):
        page = page_of(tmp_path / f"{name}.tfrecord")
        page.tell("suspects", {})
        said.append(finished(page, "suspects")["problem"])
    assert said == [
        "9 records with a label and content are too few to compare",
        "'label' has 400 values in 400 records: not classes",
    ]
