"""Does bushel read what others test their readers with? python benchmarks/conformance.py SUITE=PATH… [--out FILE].

A suite is a folder of somebody else's test files, which is never part of this repository: a suite without a path is
skipped, and that is said. Each case ends in one of four ways. *same*: records, splits, classes and features are those
that the files state. *differs*: the files cannot be used as they are, and bushel stops and names the true reason. *not
read*: bushel stops, and says so. *wrong*: everything else, also a crash. What must come out was written down from the
files themselves before the first run.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bushel
from bushel.cli import cli

OUTCOMES = {"same": "same", "differs": "differ for a stated reason", "not read": "not read, and said", "wrong": "wrong"}


class Result(NamedTuple):
    """How a case ended, and what was seen."""

    case: str
    outcome: str  # one of OUTCOMES
    seen: str


class Layout(NamedTuple):
    """What a folder holds: samples by split, how often each class occurs, and features that must have values."""

    splits: dict[str, int]
    classes: dict[str, int]
    features: tuple[str, ...] = ()
    refused_for: tuple[str, ...] = ()  # any of these words, if the files cannot be used


CLASS_NAMES = ("image/object/class/text", "image/class/text")
BOXES = ("image/encoded", "image/object/bbox/xmin")
BOTH = {"train": 1, "val": 1}
DOGS = {"dog": 2, "cat": 3}
YOLO = {"label_2": 1, "label_4": 1}
ROBOFLOW = {"train": 2, "val": 1}
LABELS = {"label_0": 2, "label_1": 2}
# Layouts of openvinotoolkit/datumaro, below tests/assets.
LAYOUTS = {
    "coco_dataset/coco": Layout(BOTH, {"a": 1, "b": 2}, BOXES),
    "coco_dataset/coco_captions": Layout(BOTH, {}, ("image/encoded", "image/caption")),
    "coco_dataset/coco_image_info": Layout(BOTH, {}, ("image/encoded",)),
    "coco_dataset/coco_instances": Layout(BOTH, {"a": 1, "b": 2}, BOXES),
    "coco_dataset/coco_labels": Layout(BOTH, {"a": 1, "b": 2}, ("image/encoded",)),
    # The mask of its first image has another size than the image.
    "coco_dataset/coco_panoptic": Layout(BOTH, {"a": 2, "b": 1}, (*BOXES, "image/object/mask"), ("5x5", "10x5")),
    "coco_dataset/coco_person_keypoints": Layout(BOTH, {"a": 1, "b": 2}, (*BOXES, "image/object/keypoint/x")),
    "coco_dataset/coco_roboflow": Layout(BOTH, {"a": 1, "b": 2}, BOXES),
    "coco_dataset/coco_stuff": Layout(BOTH, {"a": 1, "b": 1}, BOXES),
    "coco_dataset/mmdet_coco": Layout(BOTH, {"a": 1, "b": 2}, BOXES),
    "cvat_dataset/for_images/export_task": Layout({"train": 2}, {"label1": 1}, BOXES),
    "kaggle_dataset/image_csv": Layout({"train": 5}, DOGS, ("image",)),
    "kaggle_dataset/image_csv_det": Layout({"train": 3}, {"dog": 3, "cat": 3}, BOXES),
    "kaggle_dataset/image_csv_multi_label": Layout({"train": 6}, {"dog": 3, "cat": 3, "person": 3}, ("image",)),
    "kaggle_dataset/image_mask": Layout({"train": 2}, {}, ("image", "mask")),
    "kaggle_dataset/image_mask_with_labelmap": Layout({"train": 3}, {}, ("image", "mask")),
    "kaggle_dataset/image_txt": Layout({"train": 5}, DOGS, ("image",)),
    "kaggle_dataset/image_txt_det": Layout({"train": 3}, {"dog": 3, "cat": 3}, BOXES),
    "kaggle_dataset/relaxed_coco": Layout({"train": 2}, {"label_0": 1, "label_1": 1}, BOXES),
    "kaggle_dataset/relaxed_voc1": Layout({"train": 1}, {"cat": 1, "person": 1}, BOXES),
    "kaggle_dataset/relaxed_voc2": Layout({"train": 1}, {"cat": 1, "person": 1}, BOXES),
    "kaggle_dataset/relaxed_yolo": Layout({"train": 2}, {"1": 1, "2": 1, "3": 1, "4": 1}, BOXES),
    "labelme_dataset": Layout(
        {"train": 1}, {"window": 1, "license plate": 1, "o1": 1, "q1": 1, "b1": 1, "m1": 1, "hg": 1}, BOXES
    ),
    "roboflow_dataset/coco": Layout(ROBOFLOW, LABELS, BOXES),
    "roboflow_dataset/createml": Layout(ROBOFLOW, LABELS, BOXES),
    "roboflow_dataset/multiclass": Layout(ROBOFLOW, LABELS, ("image",)),
    "roboflow_dataset/tfrecord": Layout(ROBOFLOW, LABELS, BOXES[1:]),  # its records have images of 0 bytes
    "roboflow_dataset/voc": Layout(ROBOFLOW, LABELS, BOXES),
    "roboflow_dataset/yolo": Layout(ROBOFLOW, LABELS, BOXES),
    "roboflow_dataset/yolo_obb": Layout(ROBOFLOW, LABELS, BOXES),
    "voc_dataset/voc_dataset1": Layout(BOTH | {"test": 1, "val": 0}, {"cat": 1, "person": 1}, BOXES),
    # It has no images at all.
    "voc_dataset/voc_dataset2": Layout({}, {}, (), ("no such file", "not there", "no images")),
    "voc_dataset/voc_dataset3": Layout({"train": 1}, {"cat": 1}, BOXES),
    # All boxes of the two are outside of their images, which have 5 x 5 pixels.
    "vott_csv_dataset/dataset": Layout({}, {}, (), ("is outside of it", "the wrong way round")),
    "vott_json_dataset/dataset": Layout({}, {}, (), ("is outside of it", "the wrong way round")),
    "yolo_dataset/annotations": Layout({"train": 1}, YOLO, BOXES),
    "yolo_dataset/labels": Layout(BOTH, {"label_2": 2, "label_4": 2}, BOXES),
    "yolo_dataset/strict": Layout({"train": 1}, YOLO, BOXES),
}


def run_layouts(root: Path) -> Iterator[Result]:
    """Build from each layout with no option at all."""
    for name, stated in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as out:
            code, said = run_command("build", str(root / name), f"{out}/data")
            yield Result(name, *judge(stated, root / name, code, said, Path(out, "data")))


def run_command(*words: str) -> tuple[int, str]:
    """Run a command of bushel, and return its exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.main([*words], prog_name="bushel")
        except SystemExit as end:
            return int(end.code or 0), printed.getvalue()
        except BaseException as error:
            return 70, f"{type(error).__name__}: {error}"
    return 0, printed.getvalue()


def judge(stated: Layout, place: Path, code: int, said: str, built: Path) -> tuple[str, str]:
    """Whether a build gave what the files state."""
    if code:
        message = said.partition("bushel: ")[2] or said.strip().replace(str(built), "OUT")
        line = next(iter(message.replace(f"{place}: ", "").splitlines()), "")
        is_true = code in (1, 2) and any(word in said for word in stated.refused_for)
        outcome = "differs" if is_true else "not read" if code == 2 and stated.splits else "wrong"
        return outcome, f"exit code {code}: {line}"
    data = bushel.open(built)
    splits = {name: len(data[name]) for name in data.splits}
    classes, features = count_classes(data)
    seen = [("splits", splits, {name: count for name, count in stated.splits.items() if count})]
    seen += [("classes", dict(sorted(classes.items())), dict(sorted(stated.classes.items())))]
    seen += [("no value of", [name for name in stated.features if name not in features], [])]
    off = [f"{what} {found}" for what, found, wanted in seen if found != wanted]
    return ("wrong", "; ".join(off)) if off else ("same", f"{sum(splits.values())} records")


def count_classes(data: Any) -> tuple[Counter[str], set[str]]:
    """How often each class occurs, and which features have values."""
    classes: Counter[str] = Counter()
    features: set[str] = set()
    for name in data.splits:
        for record in data[name]:
            features |= {key for key, value in record.items() if size_of(value)}
            found = next(
                (record[key] for key in ("image/object/class/text", "image/class/text") if key in record), None
            )
            if found is None and data.label is not None:
                codes = record.get(data.label.feature, [])
                codes = codes if hasattr(codes, "__len__") else [codes]
                found = [data.label.names[int(code)] if data.label.names else str(code) for code in codes]
            classes.update([found] if isinstance(found, str) else [str(each) for each in found or []])
    return classes, features


def size_of(value: Any) -> int:
    """How many values there are."""
    return len(value) if hasattr(value, "__len__") else 1


SUITES: dict[str, tuple[str, Callable[[Path], Iterator[Result]]]] = {
    "layouts": ("tests/assets of openvinotoolkit/datumaro", run_layouts),
}


def main() -> None:
    """Run the suites that have a path, and print or append a table."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("suites", nargs="*", metavar="SUITE=PATH", help=f"Suites: {', '.join(SUITES)}")
    reader.add_argument("--out", type=Path, help="A file that the tables are appended to")
    reader.add_argument("--title", default="Results", help="The heading over them")
    given = reader.parse_args()
    paths = dict(word.split("=", 1) for word in given.suites)
    if unknown := set(paths) - set(SUITES):
        reader.error(f"unknown suites: {', '.join(sorted(unknown))}")
    text = "\n".join([f"## {given.title}", "", *report(paths)]) + "\n"
    sys.stdout.write(text)
    if given.out:
        with given.out.open("a") as file:
            file.write("\n" + text)


def report(paths: dict[str, str]) -> Iterator[str]:
    """A line per suite, then a line per case."""
    found = {name: [*run(Path(paths[name]))] for name, (_, run) in SUITES.items() if name in paths}
    yield from (f"| suite | cases | {' | '.join(OUTCOMES.values())} |", "|---|---:|" + "---:|" * len(OUTCOMES))
    for name, (what, _) in SUITES.items():
        if name not in found:
            yield f"| {name}: {what} | skipped: no path was given |" + " |" * len(OUTCOMES)
            continue
        counts = Counter(result.outcome for result in found[name])
        yield f"| {name}: {what} | {len(found[name])} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |"
    for name, results in found.items():
        yield from ("", f"| case of {name} | result | seen |", "|---|---|---|")
        yield from (f"| {case} | {outcome} | {seen.replace('|', '/')} |" for case, outcome, seen in results)


if __name__ == "__main__":
    main()
