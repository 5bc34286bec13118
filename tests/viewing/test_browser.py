"""The page in a real browser. Run by `make test-view`; skipped where there is no Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looking import EVIL, TOKEN
from pictures import encode_image
from support import flip

import bushel
from bushel.viewing.server import serve
from bushel.viewing.viewer import open_viewer

FOUND = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
CHROMIUM = os.environ.get("BUSHEL_CHROMIUM") or next(iter(FOUND), None)
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGS += ["--disable-sync", "--no-first-run"]
SHOTS = os.environ.get("BUSHEL_SHOTS")  # a folder for pictures of each view

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt install chromium"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="these tests need Playwright: make test-view")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield opened
        opened.close()


class Tab:
    """One tab, which notes what it loads and what goes wrong in it."""

    def __init__(self, browser: Any, served: Any, **settings: Any) -> None:
        self.served = served
        self.page = browser.new_context(viewport={"width": 1280, "height": 800}, **settings).new_page()
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _note(self, message: Any) -> None:
        if message.type == "error" and "400 (Bad Request)" not in message.text:  # a condition that is not understood
            self.errors.append(message.text)

    def open(self, path: str = "") -> Any:
        self.page.goto(self.served.link + path)
        self.settle()
        return self.page

    def settle(self) -> None:
        self.page.wait_for_load_state("networkidle")

    def shoot(self, name: str) -> None:
        if SHOTS:
            self.page.screenshot(path=Path(SHOTS) / f"{name}.png")


@pytest.fixture
def look(browser: Any) -> Iterator[Any]:
    """Open paths in a tab; at the end nothing may have failed or left the machine."""
    tabs: list[Tab] = []

    def opened(*paths: Path, marks: Path | None = None, **settings: Any) -> Tab:
        viewer = open_viewer(paths, marks=marks).start()
        served = serve(viewer, port=0, token=TOKEN).start()
        tabs.append(Tab(browser, served, **settings))
        return tabs[-1]

    yield opened
    for tab in tabs:
        hosts = {host.partition(":")[0] for host in tab.hosts}
        tab.page.context.close()
        tab.served.stop()
        assert tab.errors == []
        assert hosts <= {"127.0.0.1"}


def test_open_browse_filter_open_a_record_and_go_back(look: Any, images: Path) -> None:
    tab = look(images)
    page = tab.open()
    page.get_by_text("Classes (3)").first.wait_for()
    page.get_by_role("link", name="train", exact=True).first.click()
    page.locator(".tile").first.wait_for()
    tab.settle()
    assert page.locator(".tile img").count() >= 40
    until(page, lambda: page.locator(".tile img").first.evaluate("image => image.naturalWidth") == 32)
    tab.shoot("browse")
    page.get_by_label("Class").select_option("cat")
    page.wait_for_url("**where=*")
    page.get_by_text("Clear the filter").wait_for()
    names = page.locator(".tile .caption .name").all_text_contents()
    assert set(names) == {"cat"}
    filtered = page.url
    page.locator(".tile").nth(2).click()
    page.get_by_role("heading", name="Record").wait_for()
    assert "cat" in page.locator(".features").text_content()
    tab.shoot("record")
    page.go_back()
    page.get_by_text("Clear the filter").wait_for()
    assert page.url == filtered
    page.go_back()
    page.locator(".tile").first.wait_for()
    assert "where" not in page.url
    page.go_forward()
    page.get_by_text("Clear the filter").wait_for()
    assert page.url == filtered
    page.get_by_label("Condition").fill("widht >")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Condition").input_value() == "widht >"


def test_the_overview_shows_each_class_and_its_share_of_each_split(look: Any, images: Path) -> None:
    tab = look(images)
    page = tab.open()
    until(page, lambda: "24 to 28" in page.locator(".lede").text_content())
    said = page.locator(".lede").text_content().split(", ")
    assert said[:4] == ["90 images", "32 \N{MULTIPLICATION SIGN} 24 to 28", "3 classes", "3 splits"]
    assert page.locator(".kinds .name").all_text_contents() == ["cat", "dog", "owl"]
    for number in range(3):
        drawn(page, f".kinds > li:nth-child({number + 1}) .samples li:first-child img")
    assert page.locator(".kinds .share").count() == 9
    shares = page.locator(".kinds .share .figure").all_text_contents()
    assert sum(int(share.split(": ")[1].split(" ")[0]) for share in shares) == 90
    assert page.get_by_role("region", name="Columns by split").count() == 1
    assert page.locator("tr", has=page.get_by_label("Role of label")).locator("svg.histogram").count() == 3
    tab.shoot("overview")


def test_a_finding_shows_its_records_without_a_click(look: Any, images: Path) -> None:
    tab = look(images)
    page = tab.open()
    copies = page.locator(".finding", has_text="in train too").or_(page.locator(".finding", has_text="repeat another"))
    copies.first.wait_for()
    copies.first.scroll_into_view_if_needed()
    pair = copies.first.locator(".together").first
    assert pair.locator(".tile").count() == 2
    for number in (1, 2):
        until(page, lambda at=number: pair.locator(f"li:nth-child({at}) img[src]").count() == 1)
    one, other = (pair.locator("img").nth(number).get_attribute("src") for number in range(2))
    assert one == other
    assert page.locator(".lede").text_content().count(";") == 1
    tab.shoot("evidence")


def test_a_table_shows_rows_and_where_a_number_lies(look: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [{"age": float(draw.normal(40, 5)), "city": "Bern", "label": "ab"[n % 2]} for n in range(300)]
    rows[7]["age"] = 9e9
    bushel.build(iter(rows), tmp_path / "people", split="80/20")
    tab = look(tmp_path / "people")
    page = tab.open()
    found = page.locator(".finding", has_text="'age' is 9e+09")
    found.wait_for()
    assert found.locator("tbody tr").count() == 1
    assert "9e+09" in found.locator("tbody tr").text_content()
    until(page, lambda: found.locator(".curves svg").count() == 2)
    some = page.get_by_role("region", name="Some records").first
    assert some.locator("thead th").all_text_contents() == ["record", "label", "age", "city"]
    assert some.locator("tbody tr").count() == 4


def test_everything_can_be_done_with_the_keyboard(look: Any, images: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks.jsonl"
    tab = look(images, marks=marks)
    page = tab.open("browse?split=train")
    page.locator(".tile").first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.row") == "1"
    page.keyboard.press("d")
    page.locator(".badge.drop").wait_for()
    page.keyboard.press("r")
    page.get_by_role("combobox", name="Right label").fill("owl")
    page.keyboard.press("Enter")
    page.locator(".badge.label").wait_for()
    assert [line.split('"')[3] for line in marks.read_text().splitlines()] == ["drop", "label"]
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Record 1").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Record 2").wait_for()
    page.keyboard.press("Escape")
    page.locator(".tile").first.wait_for()
    page.keyboard.press("g")
    page.locator("table.records").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("cat/00")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=cat*")
    page.get_by_text("Clear the filter").wait_for()


def test_script_in_labels_texts_and_names_never_runs(look: Any, everything: Path, tmp_path: Path) -> None:
    rows = [{"text": EVIL, "label": EVIL if n % 2 else "plain", EVIL: n} for n in range(8)]
    bushel.build(iter(rows), tmp_path / "evil")
    tab = look(tmp_path / "evil", everything)
    evil = ("", "browse?d=0", "browse?d=0&view=grid", "record?d=0&row=1", "quarantine")
    mixed = ("browse?d=1&view=table", "record?d=1&row=5", "compare?d=0&split=train&e=1&other=all")
    for path in (*evil, *mixed):
        page = tab.open(path)
        page.wait_for_timeout(150)
        assert page.evaluate("window.evil") is None, path
    assert "<script>" in tab.open("record?d=0&row=1").locator(".features").text_content()


def test_text_tables_series_sound_and_broken_pictures_are_shown(look: Any, everything: Path) -> None:
    tab = look(everything)
    page = tab.open("browse")
    page.locator(".broken").nth(1).wait_for()
    broken = " ".join(page.locator(".tile .broken").all_text_contents())
    assert "more than 64,000,000 pixels" in broken
    assert page.locator(".boxes .bad").count() >= 10
    tab.shoot("mixed")
    page = tab.open("browse?view=table")
    page.locator("table.records").wait_for()
    assert page.locator("table.records svg .line").count() >= 12
    tab.shoot("table")
    page = tab.open("record?row=0")
    page.locator("audio").wait_for()
    page.get_by_text("Raw bytes").click()
    page.locator(".hex pre").wait_for()
    page.get_by_label("Role of series").select_option("embedding")
    page.wait_for_url("**roles=series*")


def until(page: Any, holds: Callable[[], bool]) -> None:
    """Wait for something that the page does in its own time."""
    for _ in range(1000):
        if holds():
            return
        page.wait_for_timeout(20)
    pytest.fail("the page did not get there within 20 seconds")


def drawn(page: Any, selector: str) -> list[int]:
    """The colour in the middle of a picture that has come."""
    page.wait_for_selector(selector)
    while not page.eval_on_selector(selector, "image => image.complete && image.naturalWidth"):
        page.wait_for_timeout(20)
    return page.eval_on_selector(
        selector,
        """image => {
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
            const pen = canvas.getContext("2d");
            pen.drawImage(image, 0, 0);
            return [...pen.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data];
        }""",
    )


def test_masks_boxes_and_keypoints_are_drawn_on_the_picture(look: Any, tmp_path: Path) -> None:
    mask = np.zeros((40, 60), np.uint8)
    mask[10:30, 20:40] = 1
    box = {"xmin": 20 / 60, "ymin": 0.25, "xmax": 40 / 60, "ymax": 0.75}
    with bushel.Writer(tmp_path / "scenes.tfrecord") as writer:
        for number in range(2):
            writer.write(
                {
                    "image": encode_image(np.full((40, 60, 3), 200, np.uint8), "png"),
                    "segmentation_mask": encode_image(mask, "png"),
                    **{f"objects/bbox/{side}": [np.float32(at + 0.5 * number)] for side, at in box.items()},
                    "objects/class/text": ["square"],
                    "keypoints/x": [np.float32(0.5)],
                    "keypoints/y": [np.float32(0.25)],
                }
            )
    tab = look(tmp_path / "scenes.tfrecord")
    page = tab.open("browse")
    assert drawn(page, ".tile img.image") == [200, 200, 200, 255]
    red, green, blue, alpha = drawn(page, ".tile img.mask")
    assert (red > 200, green < 120, blue < 30, 100 < alpha < 200) == (True, True, True, True)
    one, other = (page.locator(".tile").nth(number).bounding_box() for number in range(2))
    square = page.locator(".tile .boxes rect").first.bounding_box()
    picture = page.locator(".tile .layers").first.bounding_box()
    assert abs(square["x"] - picture["x"] - picture["width"] / 3) < 3
    assert abs(square["y"] - picture["y"] - picture["height"] / 4) < 3
    point = page.locator(".tile .boxes circle").first.bounding_box()
    assert abs(point["x"] + point["width"] / 2 - picture["x"] - picture["width"] / 2) < 2
    assert one["y"] == other["y"]
    assert page.locator(".tile").nth(0).locator(".bad").count() == 0
    assert page.locator(".tile").nth(1).locator(".bad title").text_content() == "square: it is out of range"
    tab.shoot("scenes")
    page = tab.open("record?row=1")
    page.get_by_text("Box 1 (square): it is out of range.").wait_for()
    drawn(page, ".features img.mask")


def test_clips_are_strips_that_play_and_sounds_have_a_player(look: Any, tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "media.tfrecord") as writer:
        for number in range(2):
            frames = [encode_image(np.full((20, 30, 3), 10 * at, np.uint8), "png") for at in range(12)]
            wave = np.sin(np.arange(8000) * (0.1 + number / 10)).astype(np.float32)
            writer.write({"clip": frames, "audio": wave, "sample_rate": 16000})
    tab = look(tmp_path / "media.tfrecord")
    page = tab.open("record?row=0")
    page.locator(".strip img").nth(5).wait_for()
    assert drawn(page, ".strip img:last-child")[:3] == [110, 110, 110]
    first = page.locator(".strip img").first
    before = first.get_attribute("src")
    page.get_by_role("button", name="Play").click()
    until(page, lambda: first.get_attribute("src") != before)
    until(page, lambda: drawn(page, ".strip img:first-child")[0] > 0)
    page.get_by_role("button", name="Stop").click()
    tab.shoot("clip")
    player = page.locator("audio")
    player.evaluate("sound => { sound.muted = true; return sound.play(); }")
    until(page, lambda: player.evaluate("sound => sound.currentTime") > 0)
    assert player.evaluate("sound => sound.duration") == pytest.approx(0.5)
    assert page.locator(".sound .line").count() == 1


def test_folders_of_tfx_and_of_tensorflow_datasets_open(look: Any, tmp_path: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    for split, count in (("train", 9), ("eval", 4)):
        folder = tmp_path / "examples" / "1" / f"Split-{split}"
        folder.mkdir(parents=True)
        with bushel.Writer(folder / "data_tfrecord-00000-of-00001.gz") as writer:
            for number in range(count):
                writer.write({"age": number, "city": "Bern"} if number else {"age": 0})
    kinds = tfds.features

    class Squares(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            objects = kinds.Sequence({"bbox": kinds.BBoxFeature()})
            label = kinds.ClassLabel(names=["owl", "cat"])
            features = {"image": kinds.Image(shape=(8, 12, 3)), "label": label, "objects": objects}
            return tfds.core.DatasetInfo(builder=self, features=kinds.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(5), "test": self._generate_examples(3)}

        def _generate_examples(self, count: int) -> Any:
            for number in range(count):
                image = np.full((8, 12, 3), 40 * number, np.uint8)
                box = kinds.BBox(ymin=0.0, xmin=0.5, ymax=0.5, xmax=1.0)
                yield number, {"image": image, "label": number % 2, "objects": [{"bbox": box}]}

    made = Squares(data_dir=tmp_path / "tfds")
    made.download_and_prepare(download_config=tfds.download.DownloadConfig(try_download_gcs=False))
    tab = look(Path(made.data_dir), tmp_path / "examples")
    page = tab.open()
    page.get_by_role("heading", name="squares/1.0.0").wait_for()
    page.get_by_text("Classes (2)").first.wait_for()
    page = tab.open("browse?split=test")
    page.locator(".tile").nth(2).wait_for()
    assert set(page.locator(".tile .name").all_text_contents()) == {"owl", "cat"}
    assert drawn(page, ".tile img")[0] in (0, 40, 80)
    square, picture = (page.locator(f".tile {name}").first.bounding_box() for name in (".boxes rect", ".layers"))
    assert abs(square["x"] - picture["x"] - picture["width"] / 2) < 3
    assert abs(square["y"] - picture["y"]) < 3
    tab.shoot("tfds")
    page = tab.open("browse?d=1&split=train")
    page.locator("tbody tr").nth(8).wait_for()
    assert page.get_by_text("Bern").count() == 8
    page.get_by_label("Missing").select_option("city")
    page.get_by_text("Clear the filter").wait_for()
    assert page.locator(".status").text_content().startswith("1 record")
    assert page.locator("tbody tr").count() == 1


def test_a_damaged_file_shows_what_is_left_of_it(look: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(9):
            writer.write({"x": np.arange(20), "text": f"line {number}"})
    flip(path, at=path.stat().st_size // 2)
    tab = look(path)
    page = tab.open("browse?view=table")
    page.get_by_text("checksum of the data does not match").wait_for()
    assert page.locator("tbody tr").count() == 9
    tab.shoot("damaged")


def test_splits_are_compared_duplicates_shown_and_batches_drawn(look: Any, images: Path) -> None:
    tab = look(images)
    page = tab.open("compare?split=train&other=val")
    page.get_by_text("those that differ most").wait_for()
    assert page.locator(".histogram.two").count() >= 1
    tab.shoot("compare")
    page = tab.open("duplicates")
    page.get_by_text("2 times the same").first.wait_for()
    tab.settle()
    tab.shoot("duplicates")
    page = tab.open("labels")
    page.get_by_text("among 90 records, compared by image").wait_for()
    page = tab.open("batches?split=train")
    page.get_by_text("each without augmentation, and with it").wait_for()
    until(page, lambda: page.locator(".pair img").first.evaluate("image => image.naturalWidth") == 32)
    tab.shoot("batches")
    page.get_by_role("button", name="Draw again").click()
    page.wait_for_url("**seed=1*")


def test_runs_lead_to_the_records_that_judged_them(look: Any, judged: Path) -> None:
    tab = look(judged)
    page = tab.open("runs")
    page.get_by_role("link", name="run", exact=True).click()
    page.get_by_role("heading", name="Confusion").wait_for()
    tab.shoot("run")
    page.locator(".confusion .wrong a").first.click()
    page.locator(".tile .said").first.wait_for()
    assert "loss" in page.locator(".said").first.text_content()


def test_a_wrong_token_a_foreign_host_and_a_path_outside_show_nothing(look: Any, images: Path) -> None:
    tab = look(images)
    tab.errors = Ignored()
    link = tab.served.link
    assert tab.page.goto(link.replace(TOKEN, "wrong")).status == 403
    assert tab.page.goto(link + "page/..%2f..%2ferrors.py").status == 404
    answer = tab.page.request.get(link + "api/overview", headers={"Host": "evil.example"})
    assert answer.status == 421


class Ignored(list):
    """Errors that a test wants."""

    def append(self, item: object) -> None:
        pass


@pytest.mark.parametrize(("wide", "scheme"), [(375, "light"), (1280, "dark"), (2560, "light")])
def test_views_fit_any_width_and_pass_axe(look: Any, images: Path, everything: Path, wide: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = look(images, everything, color_scheme=scheme)
    tab.page.set_viewport_size({"width": wide, "height": 800})
    paths = (
        "",
        "?d=1",
        "browse?split=train",
        "browse?d=1&view=table",
        "record?d=1&row=0",
        "compare?split=train&other=val",
        "labels",
        "batches",
        "batches?d=1",
    )
    for path in paths:
        page = tab.open(path)
        page.wait_for_timeout(200)
        if not path or path == "?d=1":  # the overview is whole when the check is done
            page.get_by_text("Findings (").wait_for()
            page.locator(".evidence").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= wide + 1, path
        found = axe.run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], path
    tab.shoot(f"{wide}-{scheme}")
