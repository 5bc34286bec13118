"""Scripts that are run: faults are found at their line, correct scripts pass, and nothing of the user's is written."""

import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.checking import Report
from bushel.cli import cli

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.usefixtures("warm")

SCRIPTS = Path(__file__).parent / "run_scripts"
sys.path.insert(0, str(SCRIPTS))
FAULTS = runpy.run_path(str(SCRIPTS / "faults.py"))["FAULTS"]
CORRECT = sorted((SCRIPTS / "correct").iterdir())
# Those of `make test`; `make test-scripts` runs all of them.
QUICK_FAULTS = {
    "wrong_length",
    "reshuffled_split",
    "gradients_not_applied",
    "shuffle_after_batch",
    "all_frozen",
    "same_files",
}
QUICK_SCRIPTS = {"custom_loop.py", "take_skip.py", "colab_sensors.ipynb"}


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
    return bushel.check(where, script=script, run=True, run_args=args[1] if args else "", select=["EXE", "PIP", "KER"])


def mark(name: str, quick: set[str]) -> list[pytest.MarkDecorator]:
    return [] if name in quick else [pytest.mark.scripts]


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
    rules, report = fault.rules.split(), run(script, records)
    # What is raised is told with its cause, where that was read in the code.
    found = [f for f in report if f.rule in rules or ("EXE003" in rules and "error" in f.evidence)]
    assert found, [f"{f.rule} {f.severity} {f.message}" for f in report]
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
    (finding,) = [f for f in bushel.check("data", script=script, run=True) if f.rule == "PIP021"]
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


@pytest.mark.scripts
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


TWO_CLAIMS = """
import tensorflow as tf
SPEC = {"x": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
def parse(record):
    row = tf.io.parse_single_example(record, SPEC)
    return row["x"], row["y"]
train = tf.data.TFRecordDataset("data/train.tfrecord").map(parse).batch(8).take(10)
val = tf.data.TFRecordDataset("data/val.tfrecord").map(parse).batch(64, drop_remainder=True)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(train, epochs=3)
if len(list(val)) > 100:
    model.evaluate(val)
"""


def test_a_run_that_draws_other_records_refutes_nothing_that_was_computed_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for name, count in (("train", 600), ("val", 50)):
        with bushel.Writer(tmp_path / "data" / f"{name}.tfrecord") as writer:
            for i in range(count):
                x = random.normal(size=3 if i in (400, 500, 550) else 4).astype(np.float32)
                writer.write({"x": x, "y": int(x[0] > 0)})
    script = tmp_path / "train.py"
    script.write_text(TWO_CLAIMS)
    monkeypatch.chdir(tmp_path)
    report = bushel.check("data", script=script, run=True)
    assert report.checked["run"]["fits"] == 1
    assert not [f for f in report if f.rule.startswith("EXE") and f.severity != "info"]  # the run met neither
    found = {f.rule: f for f in report if f.rule in ("PIP014", "PIP025")}
    assert [(f.severity, f.confidence, f.known) for f in found.values()] == [("error", "proven", "computed")] * 2
    assert found["PIP025"].message == "'x' is read as [4], and 3 records hold 3 values"
    assert found["PIP014"].message.startswith("50 records never fill a batch of 64")
    assert report.fails()


HELD_BATCHES = """
import tensorflow as tf
SPEC = {"x": tf.io.FixedLenFeature([8, 4], tf.float32), "y": tf.io.FixedLenFeature([8, 1], tf.float32)}
def parse(record):
    row = tf.io.parse_single_example(record, SPEC)
    return row["x"], row["y"]
train = tf.data.TFRecordDataset("data/train.tfrecord").map(parse)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train)
"""


def test_a_run_refutes_what_was_read_about_a_place_that_it_came_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    with bushel.Writer(tmp_path / "data" / "train.tfrecord") as writer:
        for _ in range(32):
            x = random.normal(size=(8, 4)).astype(np.float32)
            writer.write({"x": x.reshape(-1), "y": x.sum(axis=1)})
    script = tmp_path / "train.py"
    script.write_text(HELD_BATCHES)
    monkeypatch.chdir(tmp_path)
    (read,) = [f for f in bushel.check("data", script=script) if f.rule == "PIP009"]
    assert (read.severity, read.confidence, read.known) == ("error", "likely", "read")
    (weighed,) = [f for f in bushel.check("data", script=script, run=True) if f.rule == "PIP009"]
    assert (weighed.severity, weighed.confidence) == ("info", "hint")  # each record is a batch of 8 rows
    script.write_text(HELD_BATCHES.replace("model.fit(train)", "if len(SPEC) > 2:\n    model.fit(train)"))
    (untouched,) = [f for f in bushel.check("data", script=script, run=True) if f.rule == "PIP009"]
    assert untouched.severity == "error"  # the run did not come to it


def test_a_script_that_asserts_what_came_of_its_training_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (
        "import numpy as np\nimport tensorflow as tf\n"
        "x = np.random.rand(256, 4)\nmodel = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')\nlosses = model.fit(x, x.sum(1), epochs=50).history['loss']\n"
        "assert len(losses) == 50, 'too few epochs'\n"
    )
    script.write_text(text)
    (finding,) = bushel.check(script=script, run=True, select=["EXE"])
    assert (finding.rule, finding.severity, finding.locations[0].line) == ("EXE001", "info", 7)
    assert "own check fails after a few batches of training: AssertionError: too few epochs" in finding.message
    script.write_text("assert len('ab') == 3, 'wrong size'\n" + text)
    assert [(f.rule, f.severity) for f in bushel.check(script=script, run=True, select=["EXE"])] == [
        ("EXE003", "error")
    ]


def test_files_that_a_library_probes_for_are_not_those_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages" / "probing.py"
    library.parent.mkdir()
    library.write_text(
        "import os, pathlib\nFOUND = [os.path.exists('train.tfrecord'), pathlib.Path('/x/train.tfrecord').exists()]\n"
        "try:\n    FOUND.append(bool(open('conf/settings.json').read()))\nexcept OSError:\n    FOUND.append(False)\n"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.json").write_text("{}")
    with bushel.Writer(tmp_path / "data" / "train-0.tfrecord") as writer:
        writer.write({"x": 1.0})
    script = tmp_path / "job" / "train.py"
    script.parent.mkdir()
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(library.parent)!r})\nimport probing\n"
        "assert probing.FOUND == [False, False, False], probing.FOUND\n"
        "import os\nassert os.path.exists('/elsewhere/train-0.tfrecord')\n"
    )
    monkeypatch.chdir(script.parent)
    assert [f.message for f in bushel.check(tmp_path / "data", script=script, run=True, select=["EXE"])] == []


def test_findings_name_the_files_of_the_user_and_not_those_of_the_copy(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nraise KeyError(os.path.abspath('table.csv'))\n")
    (finding,) = bushel.check(script=script, run=True, select=["EXE"])
    assert str(tmp_path / "table.csv") in finding.message
    assert "bushel-run" not in str(finding.to_json())


def test_a_value_that_nobody_gave_is_not_what_a_script_fails_for(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--mode', required=True)\n"
        "mode = parser.parse_args().mode\nrates = {'small': 1, 'large': 2}[mode]\n"
    )
    report = bushel.check(script=script, run=True, select=["EXE"])
    assert [(f.rule, f.severity) for f in report] == [("EXE001", "info")]
    assert any("argument mode was not given" in note for note in report.checked["replaced"])
    (finding,) = bushel.check(script=script, run=True, run_args="--mode medium", select=["EXE"])
    assert (finding.rule, finding.severity) == ("EXE003", "error")


def test_a_run_that_was_cut_off_says_so_and_keeps_what_was_found(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import tensorflow as tf\ntotal = 0\nfor i in [0]:\n    while True:\n        total = sum(range(9**5))\n"
    )
    report = bushel.check(script=script, run=True, run_limit=0.5, select=["EXE"])
    assert report.is_cut_off
    (finding,) = report
    assert finding.rule == "EXE002"
    assert finding.locations[0].line == 5
    assert "stopped at the limit of 0.5 s of processor time" in finding.message


@pytest.mark.parametrize("level", ["info", "error"])
def test_a_run_that_was_cut_off_is_exit_2_whatever_is_to_fail(level: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("while True:\n    pass\n")
    result = CliRunner().invoke(
        cli, ["check", "--script", str(script), "--run", "--run-limit", "0.5", "--fail-on", level]
    )
    assert result.exit_code == 2
    assert "EXE002" in result.output
    assert result.output.splitlines()[-1].endswith("the run was stopped at a limit, and not checked to its end")


def test_ending_a_check_ends_the_script_all_that_it_started_and_its_folder(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, subprocess, sys\n"
        f"with open({str(tmp_path / 'numbers')!r}, 'w') as file:\n    pass\n"
        "started = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)\n"
        "print('pids', os.getpid(), started.pid, os.environ['TMPDIR'], flush=True)\n"
        "while True:\n    pass\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "bushel", "check", "--script", str(script), "--run"]
    checking = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL)
    pids: list[int] = []
    while not pids:
        time.sleep(0.1)
        assert checking.poll() is None
        for output in temporary.glob("bushel-run-*/output.txt"):
            pids = [int(pid) for line in re.findall(r"pids (\d+) (\d+)", output.read_text()) for pid in line]
    checking.terminate()
    assert checking.wait() == 128 + signal.SIGTERM
    assert list(temporary.iterdir()) == []
    assert not [
        pid for pid in pids if Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text()
    ]


def test_a_check_takes_the_path_that_the_design_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
    steps = page[page.index("**Check.**") : page.index("## 4. ")]
    shown = re.findall(r"`(checking[\w.]+)`", steps)
    of_child = [name for name in shown if re.search(r"running\.(carriers|batches|tracing)\.", name)]
    assert len(of_child) == 4
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        writer.write({"x": 1.0})
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\nimport keras\nmodel = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')\nmodel.fit(np.random.rand(64, 2), np.random.rand(64))\n"
    )
    called: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/bushel/checking/" in frame.f_code.co_filename:
            module = str(frame.f_globals["__name__"]).removeprefix("bushel.")
            called.setdefault(f"{module}.{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        report = bushel.check(tmp_path / "train.tfrecord", script=script, run=True)
    finally:
        sys.setprofile(None)
    assert report.checked["run"]["fits"] == 1  # the child has carried, looked and delivered
    met = [name for name in called if name in shown]
    assert met == [name for name in shown if name not in of_child]


def test_a_script_is_needed_to_run_one() -> None:
    with pytest.raises(ValueError, match="run must come with a script"):
        bushel.check("data", run=True)
