"""Fixes that checks of data print, applied: the finding is gone."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from data_faults import CASES, jpeg, noise, photos, rows, write

import bushel
from bushel.cli import cli

Image = pytest.importorskip("PIL.Image")


def case(rule: str) -> Callable[[Path], dict[str, Any]]:
    return next(make for _, name, make in CASES if name == rule)


def finding(rule: str, data: Any) -> bushel.checking.Finding:
    return next(found for found in bushel.check(data) if found.rule == rule)


def rules(data: Any) -> set[str]:
    return {found.rule for found in bushel.check(data)}


def run(line: str, **names: Path) -> None:
    """Run the command that a line of help ends with."""
    words = line[line.index("bushel ") :].split()[1:]
    done = CliRunner().invoke(cli, [str(names.get(word, word)) for word in words])
    assert done.exit_code == (1 if words[0] == "repair" else 0), done.output  # repairing says that something was lost


@pytest.mark.parametrize("rule", ["FIL003", "FIL004", "FIL005"])
def test_the_repair_that_is_printed_leaves_files_that_are_whole(rule: str, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    data = case(rule)(tmp_path / "broken")["data"]
    commands = [line for line in finding(rule, data).help if "bushel repair" in line]
    assert commands
    for number, line in enumerate(commands):
        run(line, OUT=tmp_path / f"repaired-{number}.tfrecord")
        assert rules(tmp_path / f"repaired-{number}.tfrecord") & {"FIL003", "FIL004", "FIL005"} == set()


def test_the_build_that_is_printed_leaves_shards_that_tensorflow_reads(tmp_path: Path) -> None:
    data = case("FIL002")(tmp_path / "gzip")["data"]
    run(finding("FIL002", data).help[0], OUT=tmp_path / "out")
    assert "FIL002" not in rules(tmp_path / "out")


def test_the_index_that_is_printed_belongs_to_its_file(tmp_path: Path) -> None:
    data = case("FIL008")(tmp_path)["data"]
    run(finding("FIL008", data).help[0])
    assert "FIL008" not in rules(data)


def test_the_build_that_is_printed_leaves_records_in_random_order(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    made = case("ORD001")(tmp_path / "data")
    help = next(f for f in bushel.check(**made) if f.rule == "ORD001").help
    run(help[0], OUT=tmp_path / "out")
    assert "ORD001" not in {f.rule for f in bushel.check(tmp_path / "out", plan=made["plan"])}


def test_the_group_that_is_printed_keeps_its_records_in_one_split(tmp_path: Path) -> None:
    data = case("SPL004")(tmp_path / "data")["data"]
    (command,) = re.findall(r"bushel build .*", finding("SPL004", data).help[0])
    run(f"{command} --split 80/20", SOURCE=data, OUT=tmp_path / "out")
    assert "SPL004" not in rules(tmp_path / "out")


def test_the_stratified_split_that_is_printed_has_every_class_in_train(tmp_path: Path) -> None:
    data = case("LBL004")(tmp_path / "data")["data"]
    (command,) = re.findall(r"bushel build .*", finding("LBL004", data).help[0])
    run(command, SOURCE=data, OUT=tmp_path / "out")
    assert "LBL004" not in rules(tmp_path / "out")


def test_dropping_copies_from_the_source_leaves_none_in_val_and_splitting_again_does(tmp_path: Path) -> None:
    table = np.repeat(np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32), 3, axis=0)
    lines = [",".join(map(str, row)) for row in table]

    def built(name: str, kept: list[str]) -> set[str]:
        (tmp_path / f"{name}.csv").write_text("a,b,c,d,e,label\n" + "\n".join(kept) + "\n")
        bushel.build(tmp_path / f"{name}.csv", tmp_path / name, split="80/20")
        return rules(tmp_path / name)

    assert "SPL001" in built("all", lines)
    assert finding("SPL001", tmp_path / "all").help == [
        "drop the copies from the source before it is split, or drop these records from val"
    ]
    assert "SPL001" not in built("unique", list(dict.fromkeys(lines)))


def png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def drawn_in_alpha(count: int = 30) -> list[Any]:
    """Black pictures whose drawing is their transparency, as icons and scans of signatures often are."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        alpha = np.kron(random.integers(0, 2, (6, 6)) * 255, np.ones((6, 6))).astype(np.uint8)
        found.append(Image.fromarray(np.dstack([np.zeros((36, 36, 3), np.uint8), alpha])))
    return found


def test_a_drawing_in_alpha_is_not_called_blank_and_is_pasted_as_the_help_says(tmp_path: Path) -> None:
    images = drawn_in_alpha()
    data = write(tmp_path / "a.tfrecord", [{"image": png(image)} for image in images])
    assert rules(data) & {"IMG005", "IMG006"} == {"IMG005"}
    assert "alpha_composite" in finding("IMG005", data).help[0]
    pasted = [Image.alpha_composite(Image.new("RGBA", i.size, "white"), i).convert("RGB") for i in images]
    mended = write(tmp_path / "b.tfrecord", [{"image": png(image)} for image in pasted])
    assert rules(mended) & {"IMG005", "IMG006"} == set()


def test_grey_images_are_converted_as_the_help_says(tmp_path: Path) -> None:
    data = case("IMG005")(tmp_path)["data"]
    assert 'image.convert("RGB")' in finding("IMG005", data).help[0]
    stored = [row["image"] for row in bushel.scan(data)]
    converted = [jpeg(np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))) for image in stored]
    assert "IMG005" not in rules(write(tmp_path / "b.tfrecord", [{"image": image} for image in converted]))


def test_labels_are_moved_as_the_help_says(tmp_path: Path) -> None:
    data = write(tmp_path / "a.tfrecord", [{**row, "label": row["label"] + 1} for row in rows()])
    assert finding("LBL002", data).help == ["use int(label) - 1"]
    moved = write(tmp_path / "b.tfrecord", rows())
    assert "LBL002" not in rules(moved)


def test_the_picture_of_another_format_is_converted_as_the_help_says(tmp_path: Path) -> None:
    data = case("IMG002")(tmp_path)["data"]
    assert finding("IMG002", data).help[0].startswith("convert them where they are written")
    samples = photos()
    samples[7]["image"] = jpeg(noise(np.random.default_rng(99)))
    assert "IMG002" not in rules(write(tmp_path / "b.tfrecord", samples))
