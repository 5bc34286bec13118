"""The bytes that bushel writes are frozen: small builds of every kind, whose digests are in `data/frozen_bytes.json`.

A later change of bytes needs a format version or a CHANGELOG line, and old files stay readable. `data/format1` holds
files that were written once and are never written again.

`python tests/test_frozen_bytes.py` writes the digests again, where such a change is meant.
"""

import hashlib
import json
import platform
import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frozen_builds import BUILDS, CODECS, fill_lines
from support import DATA

import bushel
from bushel import Run, sources
from bushel import transforms as t
from bushel.building.output.journal import versions

FROZEN = DATA / "frozen_bytes.json"
FORMAT1 = DATA / "format1"
PARALLEL = ["from_csv", "from_images", "from_text", "jittered", "refusing"]


def frozen() -> dict[str, Any]:
    return json.loads(FROZEN.read_text())


def codec_versions() -> dict[str, str]:
    installed = versions()
    return {name: installed.get(name, "none") for name in sorted({n for names in CODECS.values() for n in names})}


def without_versions(manifest: bytes) -> bytes:
    """A manifest without the values of `versions` (FORMAT.md, 7.): those of bushel and of each codec installed."""
    masked, count = re.subn(rb'"versions": \{\s*"bushel": [^}]*\}', b'"versions": {}', manifest)
    assert count == 1
    return masked


def frozen_part(path: Path) -> bytes:
    data = path.read_bytes()
    return without_versions(data) if path.name == "dataset.json" else data


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, whatever it is: a file more or less is a change too."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(frozen_part(path)).hexdigest() for path in files}


def build(name: str, folder: Path, workers: int = 1) -> dict[str, str]:
    """Run one of the builds in a folder of its own."""
    folder.mkdir()
    with chdir(folder):
        BUILDS[name](Run(workers=workers))
    return digests(folder / "out")


@pytest.mark.parametrize("name", BUILDS)
def test_a_build_writes_the_bytes_it_always_wrote(tmp_path: Path, name: str) -> None:
    known = frozen()
    found, installed = build(name, tmp_path / "one"), codec_versions()
    for codec in CODECS.get(name, ()):
        if installed[codec] != known["versions"][codec]:
            pytest.skip(f"frozen with {codec} {known['versions'][codec]}; this is {installed[codec]}")
        if codec == "isal" and platform.machine() != "x86_64":
            pytest.skip("isal compresses to other bytes on other processors")
    assert found == known["builds"][name]


@pytest.mark.parametrize("name", PARALLEL)
def test_two_workers_write_the_same_bytes(tmp_path: Path, name: str) -> None:
    assert build(name, tmp_path / "two", workers=2) == build(name, tmp_path / "one")


def test_no_frozen_build_is_forgotten() -> None:
    assert set(frozen()["builds"]) == set(BUILDS)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the files of format 1 with new times, as a checkout has them."""
    folder = tmp_path / "format1"
    shutil.copytree(FORMAT1, folder, copy_function=shutil.copyfile)
    return folder


def expected() -> dict[str, Any]:
    return json.loads((FORMAT1 / "expected.json").read_text())


def plain(value: Any) -> Any:
    """A value of a record as JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def plain_records(samples: Any) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in sample.items()} for sample in samples]


def test_a_dataset_of_format_1_reads_as_it_was_written(old: Path) -> None:
    dataset = bushel.open(old / "dataset")
    found = {name: plain_records(split[n] for n in range(len(split))) for name, split in dataset.splits.items()}
    assert found == expected()["dataset"]
    manifest = bushel.read_manifest(old / "dataset")
    assert (manifest.format, manifest.generation, manifest.refused) == (1, 1, 2)
    assert manifest.label is not None
    assert manifest.label.names == ["bird", "cat", "dog"]


def test_transforms_of_format_1_come_back_with_what_they_learnt(old: Path) -> None:
    prepared = t.apply_all(bushel.open(old / "dataset").transforms(), {"x": 5.0})
    assert plain(prepared["x"]) == expected()["prepared"]


def test_indexes_of_format_1_are_fresh_for_their_files(old: Path) -> None:
    for name, columns in expected()["indexes"].items():
        index = bushel.load_index(old / name)
        assert {column: values.tolist() for column, values in index.values.items()} == columns


@pytest.mark.parametrize("name", ["every.tfrecord", "every.tfrecord.gz"])
def test_a_file_of_format_1_reads_as_it_was_written(old: Path, name: str) -> None:
    split = bushel.open(old / name)["all"]
    assert plain_records(split[n] for n in range(len(split))) == expected()["file"]


def test_a_state_of_format_1_goes_on_with_the_next_batch(old: Path) -> None:
    train = bushel.open(old / "dataset")["train"]
    with bushel.batches(train, batch_size=4, order=bushel.Order(shuffle=True, seed=7), epochs=2) as feed:
        feed.restore(json.loads((old / "state.json").read_text()))
        assert [batch["n"].tolist() for batch in feed] == expected()["batches"]


def test_a_dataset_of_format_1_can_be_added_to(old: Path) -> None:
    before = digests(old / "dataset")
    rows = [{"n": n, "x": n / 4, "tags": ["new"], "label": "cat"} for n in range(30, 60)]
    more = sources.table(fill_lines(str(old / "more.jsonl"), rows), key="n")
    added = bushel.build(more, old / "dataset", run=Run(workers=1, append=True))
    assert added.records == 20  # the first ten keys are there already
    after = digests(old / "dataset")
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed == {"dataset.json"}
    assert bushel.read_manifest(old / "dataset").generation == 2


def regenerate() -> None:
    """Write the digests of all builds again."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: build(name, Path(folder) / name) for name in BUILDS}
    FROZEN.write_text(json.dumps({"versions": codec_versions(), "builds": found}, indent=1) + "\n")


if __name__ == "__main__":
    regenerate()
