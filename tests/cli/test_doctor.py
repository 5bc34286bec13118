"""`bushel doctor`: facts for a bug report."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import bushel
from bushel.cli.check import _packages as packages


def doctor(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bushel", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings}, check=False)


def test_versions_cores_disks_and_decoders_are_shown() -> None:
    done = doctor()
    assert done.returncode == 0, done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert bushel.__version__ in lines["version"]
    assert "JPEG" in lines["decoders"]
    assert f"of {os.cpu_count()}" in lines["cores"]
    assert "free" in lines["here"]
    assert lines["numpy"].split()[1][0].isdigit()
    assert done.stdout.endswith("no problem found\n")


def test_json_has_the_same_facts() -> None:
    facts = json.loads(doctor("--json", BUSHEL_CACHE_SIZE="3G").stdout)
    assert facts["bushel"]["version"] == bushel.__version__
    assert facts["settings"]["BUSHEL_CACHE_SIZE"] == "3G"
    assert facts["problems"] == []


def test_secrets_are_not_shown() -> None:
    done = doctor(AWS_SECRET_ACCESS_KEY="hush-hush", AZURE_STORAGE_KEY="hush-hush")
    assert "hush-hush" not in done.stdout
    assert "AWS_SECRET_ACCESS_KEY" in done.stdout


def test_a_package_that_is_too_old_is_a_problem(tmp_path: Path) -> None:
    old = tmp_path / "click-1.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: click\nVersion: 1.0\n")
    done = doctor(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.returncode == 1
    assert 'problem: click 1.0 is too old: pip install --upgrade "click>=8.1"' in done.stdout


def test_a_setting_that_cannot_be_is_one_clear_line() -> None:
    done = doctor(BUSHEL_CACHE_SIZE="lots")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bushel: BUSHEL_CACHE_SIZE must be a size such as 20G, or 0; got 'lots'\n"


def test_a_missing_package_leads_to_the_extra_of_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ['absent>=2; extra == "cuda"', 'absent>=2; extra == "absent"', "numpy>=2"]
    monkeypatch.setattr(metadata, "requires", lambda name: declared)
    assert packages()[0]["absent"] == 'not installed: pip install "bushel[absent]"'


def test_the_value_of_a_setting_that_is_a_secret_is_not_shown() -> None:
    said = doctor(BUSHEL_VIEW_TOKEN="hunter2", BUSHEL_CACHE_SIZE="3G").stdout
    assert "hunter2" not in said
    assert "BUSHEL_VIEW_TOKEN" in said
    assert "3G" in said
