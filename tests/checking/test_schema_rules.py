"""Data against a `schema.pbtxt`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bushel

SCHEMA = """
string_domain { name: "colours" value: "red" value: "green" }
feature { name: "x" type: FLOAT shape { dim { size: 3 } } presence { min_fraction: 1.0 min_count: 1 }
          float_domain { min: 0 max: 1 disallow_nan: true } }
feature { name: "n" type: INT value_count { min: 1 max: 1 } int_domain { min: 0 max: 5 } presence { min_count: 4 } }
feature { name: "colour" type: BYTES domain: "colours" }
feature { name: "old" type: INT lifecycle_stage: DEPRECATED presence { min_fraction: 1.0 } }
"""


def written(folder: Path, samples: list[dict]) -> Path:
    path = folder / "data.tfrecord"
    with bushel.Writer(path) as writer:
        for sample in samples:
            writer.write(sample)
    (folder / "schema.pbtxt").write_text(SCHEMA)
    return path


def sample(**changes: object) -> dict:
    return {"x": np.array([0.0, 0.5, 1.0], np.float32), "n": 3, "colour": b"red"} | changes


def found(folder: Path, samples: list[dict]) -> dict[str, str]:
    path = written(folder, samples)
    report = bushel.check(path, schema=folder / "schema.pbtxt", select=["TFX"])
    return {finding.rule: finding.message for finding in report}


def test_data_that_follows_the_schema_has_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, [sample(), sample(colour=b"green"), sample(n=0), sample(n=5)]) == {}


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"extra": 1}, "TFX001", "'extra' is in 1 record, and the schema does not declare it"),
        ({"x": None}, "TFX002", "'x' is in 4 of 5 records, and the schema demands 5"),
        ({"x": np.ones(4, np.float32)}, "TFX004", "'x' holds 3 to 4 values in a record, and the schema allows 3"),
        ({"n": 6}, "TFX005", "'n' goes up to 6, and the schema ends at 5"),
        ({"n": -1}, "TFX005", "'n' goes down to -1, and the schema ends at 0"),
        ({"x": np.array([0, np.nan, 1], np.float32)}, "TFX005", "'x' holds 1 NaN value, and the schema allows none"),
        ({"colour": b"blue"}, "TFX005", "'colour' holds 1 text that the schema does not know: 'blue'"),
    ],
)
def test_one_record_that_breaks_the_schema_is_found(changes: dict, rule: str, words: str, tmp_path: Path) -> None:
    odd = {name: value for name, value in sample(**changes).items() if value is not None}
    assert found(tmp_path, [sample()] * 4 + [odd]) == {rule: words}


def test_another_type_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, [sample(n=np.float32(1))] * 4) == {"TFX003": "'n' is float32, and the schema says int64"}


def test_the_command_names_the_record_and_fails(tmp_path: Path) -> None:
    path = written(tmp_path, [sample()] * 4 + [sample(n=6)])
    command = [sys.executable, "-m", "bushel", "check", str(path), "--schema", str(tmp_path / "schema.pbtxt")]
    done = subprocess.run([*command, "--select", "TFX", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    finding = json.loads(done.stdout)["findings"][0]
    assert (finding["rule"], finding["locations"][0]["record"]) == ("TFX005", 4)


def test_what_bushel_prints_fits_what_it_read(tmp_path: Path) -> None:
    bushel.build({"x": np.ones((6, 3), np.float32), "label": ["cat", "dog"] * 3}, tmp_path / "data", split="100")
    printed = subprocess.run(
        [sys.executable, "-m", "bushel", "schema", str(tmp_path / "data"), "--pbtxt"],
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "schema.pbtxt").write_text(printed.stdout)
    assert not bushel.check(tmp_path / "data", schema=tmp_path / "schema.pbtxt", select=["TFX"]).findings


def test_a_schema_without_data_is_refused() -> None:
    with pytest.raises(ValueError, match="schema must come with data"):
        bushel.check(script=__file__, schema="schema.pbtxt")
