"""A package of somebody else adds a source, a transform, a rule, an engine and an export; data adds nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed, by pip."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")  # pip builds in the folder itself
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(folder / "packages"), str(folder / "source")], check=True)
    return folder / "packages"


def run(installed: Path | None, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PYTHONPATH": str(installed)} if installed else {})
    command = [sys.executable, "-m", "bushel", *words]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


def test_everything_that_a_package_adds_is_used_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "count.waves").write_text("8")
    built = run(
        installed, "build", "waves://40", "a", "--engine", "in-a-row", "--transform", "halve:wave", cwd=tmp_path
    )
    assert built.returncode == 0, built.stderr
    assert json.loads((tmp_path / "a" / "dataset.json").read_text())["recipe"]["transforms"] == [
        {"transform": "halve", "feature": "wave"}
    ]
    assert run(installed, "build", "a/recipe.toml", "again", cwd=tmp_path).returncode == 0
    shards = [(tmp_path / name / "train-00000-of-00001.tfrecord").read_bytes() for name in ("a", "again")]
    assert shards[0] == shards[1]
    assert run(installed, "build", "count.waves", "b", cwd=tmp_path).returncode == 0
    checked = run(installed, "check", "b", cwd=tmp_path)
    assert "WAV001" in checked.stdout, checked.stdout + checked.stderr
    assert run(installed, "export", "b", "text", "--format", "lines", cwd=tmp_path).returncode == 0
    assert len((tmp_path / "text" / "train-00000-of-00001.txt").read_text().split()) == 8
    doctor = run(installed, "doctor", "--json", cwd=tmp_path)
    assert json.loads(doctor.stdout)["plug-ins"]["sources: waves"] == "bushel-waves 1.0"


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    for words, said in (
        (("build", "waves://40", "a"), "got waves://"),
        (("build", "x.csv", "a", "--engine", "in-a-row"), "--engine must be one of local, ray; got 'in-a-row'"),
    ):
        done = run(None, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_package_in_the_folder_of_the_data_adds_nothing(installed: Path, tmp_path: Path) -> None:
    """`python -m bushel` has the working folder among the places where Python looks for packages."""
    shutil.copytree(installed, tmp_path / "data")
    done = run(None, "build", "waves://40", "out", cwd=tmp_path / "data")
    assert done.returncode == 2
    assert "got waves://" in done.stderr
    assert "plug-ins" not in run(None, "doctor", cwd=tmp_path / "data").stdout


def test_a_package_that_cannot_be_imported_is_named(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "packages"
    shutil.copytree(installed, broken)
    (broken / "bushel_waves" / "__init__.py").write_text("raise ImportError('there is no sea')")
    done = run(broken, "build", "waves://40", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "the plug-in 'waves' of bushel-waves 1.0 cannot be loaded: there is no sea" in done.stderr
