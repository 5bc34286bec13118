"""Scripts that are run: faults are found at their line, correct scripts pass, and nothing of the user's is written."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel.checking import Report

tf = pytest.importorskip("tensorflow")

SCRIPTS = Path(__file__).parent / "run_scripts"
sys.path.insert(0, str(SCRIPTS))
FAULTS = runpy.run_path(str(SCRIPTS / "faults.py"))["FAULTS"]
CORRECT = sorted((SCRIPTS / "correct").iterdir())
QUICK_FAULTS = {"wrong_length", "reshuffled_split", "gradients_not_applied"}
QUICK_SCRIPTS = {"custom_loop.py"}


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run_data")
    runpy.run_path(str(SCRIPTS / "make_data.py"))["make"](root)
    return root


def run(script: Path, records: Path) -> Report:
    text = script.read_text() if script.is_file() else (script / "__main__.py").read_text()
    data = re.search(r"# data: (\w+)", text)
    args = re.search(r"# args: (.*?)(\\n|$)", text, re.MULTILINE)
    where = None if data is None or data[1] == "none" else records / data[1]
    return bushel.check(where, script=script, run=True, run_args=args[1] if args else "", select=["EXE", "KER"])


def mark(name: str, quick: set[str]) -> list[pytest.MarkDecorator]:
    return [] if name in quick else [pytest.mark.slow]


@pytest.mark.parametrize("script", [pytest.param(p, marks=mark(p.name, QUICK_SCRIPTS), id=p.name) for p in CORRECT])
def test_a_correct_script_passes(script: Path, records: Path) -> None:
    report = run(script, records)
    assert [f"{f.rule} {f.message}" for f in report if f.severity != "info"] == []


@pytest.mark.parametrize("fault", [pytest.param(f, marks=mark(f.name, QUICK_FAULTS), id=f.name) for f in FAULTS])
def test_a_fault_is_found_at_its_line(fault, records: Path, tmp_path: Path) -> None:
    text = (SCRIPTS / "correct" / f"{fault.script}.py").read_text()
    assert fault.old in text
    script = tmp_path / "train.py"
    script.write_text(text.replace(fault.old, fault.new, 1))
    found = [f for f in run(script, records) if f.rule in fault.rules.split()]
    assert found
    marked = [n for n, line in enumerate(script.read_text().splitlines(), 1) if line.endswith("# <-")]
    if marked:
        assert {place.line for finding in found for place in finding.locations} & set(marked)


def test_the_folder_of_the_script_is_left_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "job" / "train.py"
    script.parent.mkdir()
    kept = tmp_path / "job" / "kept.txt"
    kept.write_text("mine")
    script.write_text(
        "import os\nopen('kept.txt', 'w').write('theirs')\n"
        f"open({str(kept)!r}, 'w').write('theirs')\nopen('new.txt', 'w').write('x')\n"
        f"os.makedirs({str(tmp_path / 'job' / 'deep')!r})\n"
    )
    report = bushel.check(script=script, run=True, select=["EXE"])
    assert list(report) == []
    assert kept.read_text() == "mine"
    assert sorted(p.name for p in script.parent.iterdir()) == ["kept.txt", "train.py"]


def test_files_where_check_runs_are_found_by_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pictures" / "train" / "cats").mkdir(parents=True)
    (tmp_path / "job").mkdir()
    script = tmp_path / "job" / "train.py"
    script.write_text(
        "import pathlib\nnames = [p.name for p in pathlib.Path('pictures/train').iterdir()]\nassert names == ['cats']\n"
    )
    monkeypatch.chdir(tmp_path)
    assert list(bushel.check("pictures", script=script, run=True, select=["EXE"])) == []
    assert [p.name for p in script.parent.iterdir()] == ["train.py"]


def test_a_folder_of_tables_is_what_the_script_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "train.csv").write_text("a,b\n1,2\n")
    script = tmp_path / "train.py"
    script.write_text("assert open('/nowhere/tables/train.csv').read() == 'a,b\\n1,2\\n'\n")
    monkeypatch.chdir(tmp_path)
    report = bushel.check("tables", script=script, run=True, select=["EXE"])
    assert [finding.message for finding in report] == []


def test_what_keeps_a_script_from_running_is_the_first_finding(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import tensorflow as tf\nimport a_package_of_nobody\n")
    (finding,) = bushel.check(script=script, run=True, select=["EXE"])
    assert finding.rule == "EXE001"
    assert "a_package_of_nobody" in finding.message
    assert finding.locations[0].line == 2


def test_a_pattern_that_matches_nothing_where_the_data_is_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    with bushel.Writer(tmp_path / "data" / "train-0.tfrecord") as writer:
        writer.write({"x": 1.0})
    script = tmp_path / "train.py"
    script.write_text(
        "import tensorflow as tf\nfiles = tf.io.gfile.glob('data/*.tfrecords')\nassert files, 'no files'\n"
    )
    monkeypatch.chdir(tmp_path)
    (finding,) = [f for f in bushel.check("data", script=script, run=True, select=["EXE"]) if f.rule == "EXE016"]
    assert finding.message == "no file matches 'data/*.tfrecords'; there are train-0.tfrecord"
    assert finding.locations[0].line == 2


RAW = """
import tensorflow as tf
def parse(record):
    row = tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([], tf.string)})
    x = tf.reshape(tf.io.decode_raw(row["x"], tf.int32), [8])
    return tf.cast(x, tf.float32), x[0] > 0
train = tf.data.TFRecordDataset("data/train.tfrecord").map(parse).batch(8)
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(train)
"""


@pytest.mark.slow
def test_floats_decoded_as_integers_are_found_at_the_line_that_decodes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    with bushel.Writer(tmp_path / "data" / "train.tfrecord") as writer:
        for _ in range(64):
            writer.write({"x": random.normal(size=8).astype(np.float32).tobytes()})
    script = tmp_path / "train.py"
    script.write_text(RAW)
    (finding,) = [f for f in bushel.check(tmp_path / "data", script=script, run=True) if f.rule == "EXE045"]
    assert finding.locations[0].line == 5


def test_a_script_is_needed_to_run_one() -> None:
    with pytest.raises(ValueError, match="run must come with a script"):
        bushel.check("data", run=True)
