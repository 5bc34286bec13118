import json
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support import example, flip, run, write_records

import bushel
from bushel._native import codecs
from bushel.cli import _COMMANDS, cli


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_records(tmp_path / "a.tfrecord", [example({"label": [i], "key": [b"k%d" % i]}) for i in range(4)])


def test_the_version_names_core_formats_decoders_and_extras() -> None:
    version, core, formats, decoders, extras, *missing = run("--version").stdout.splitlines()
    assert version == f"bushel {bushel.__version__}"
    assert core.startswith("core: _native")
    assert formats == "formats: datasets 1, indexes 3"
    jpeg, png = codecs()["jpeg"] or "simplejpeg", codecs()["png"] or "Pillow"
    assert decoders == f"images: {jpeg} for JPEG, {png} for PNG, Pillow for others"
    assert extras.startswith("extras: ")
    assert f"openpyxl {metadata.version('openpyxl')}" in extras
    assert all(line.startswith("not installed: ") for line in missing)


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_help_has_a_sentence_and_says_how_it_exits(command: str) -> None:
    done = call(command, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: ")
    assert _COMMANDS[command][1].rstrip(".").split(":")[0].split(" of ")[0] in done.stdout
    if command != "completion":
        assert "Exit: 0" in done.stdout


def test_help_lists_every_command() -> None:
    done = call("--help")
    assert done.exit_code == 0
    for command, (_, text) in _COMMANDS.items():
        assert f"{command} " in done.stdout
        assert text in done.stdout


def test_a_command_that_is_not_there_offers_the_nearest() -> None:
    done = call("ifno", "x")
    assert done.exit_code == 2
    assert "there is no command 'ifno'. Did you mean 'info'?" in done.stderr


@pytest.mark.parametrize("arguments", [["info"], ["cat", "a", "--nope"], ["repair", "one"], ["completion", "tcsh"]])
def test_wrong_arguments_exit_2(arguments: list[str]) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""


def test_index_writes_beside_the_file_and_says_where(path: Path) -> None:
    done = call("index", path, "--label", "label", "--key", "key")
    assert (done.exit_code, done.stdout) == (0, f"{path.parent / '_index' / 'a.tfrecord.idx'}\n")
    assert bushel.load_index(path).values["label"].tolist() == [0, 1, 2, 3]
    as_json = json.loads(call("index", path, "--json").stdout)
    assert as_json == {"written": [str(path.parent / "_index" / "a.tfrecord.idx")]}


def test_index_as_text_is_that_of_dali(path: Path) -> None:
    call("index", path, "--text")
    first = (path.parent / "a.tfrecord.idx").read_text().splitlines()[0]
    assert first == f"0 {path.stat().st_size // 4}"


def test_index_of_damage_or_of_a_missing_feature_exits_2(path: Path) -> None:
    missing = call("index", path, "--label", "lable")
    assert missing.exit_code == 2
    assert "no feature 'lable'; did you mean 'label'?" in missing.stderr
    flip(path, 15)
    assert call("index", path).exit_code == 2


def test_repair_exits_0_if_nothing_was_lost_and_1_if_something_was(path: Path, tmp_path: Path) -> None:
    whole = call("repair", path, tmp_path / "whole")
    assert (whole.exit_code, whole.stdout) == (0, f"{path}: 4 records kept in {tmp_path / 'whole'}, 0 bytes lost\n")
    size = path.stat().st_size // 4
    flip(path, size + 15)
    done = call("repair", path, tmp_path / "rest")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{path}: 3 records kept in {tmp_path / 'rest'}, {size} bytes lost",
        f"  bytes {size} to {2 * size}, from record 1 on: checksum of the data does not match",
    ]
    (found,) = json.loads(call("repair", path, tmp_path / "again", "--json").stdout)
    assert (found["kept"], found["lost"][0]["begin"], found["lost"][0]["end"]) == (3, size, 2 * size)


def test_repair_never_overwrites(path: Path) -> None:
    done = call("repair", path, path)
    assert done.exit_code == 2
    assert "exists already" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_of_the_shell(shell: str) -> None:
    done = call("completion", shell)
    assert done.exit_code == 0
    assert "_BUSHEL_COMPLETE" in done.stdout


def test_completion_knows_the_commands() -> None:
    done = run(_BUSHEL_COMPLETE="bash_complete", COMP_WORDS="bushel in", COMP_CWORD="1")
    assert "info" in done.stdout


def test_a_reader_that_stops_early_gets_no_message_but_an_exit_code(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = write_records(tmp_path / "a", [example({"x": [i]}) for i in range(20_000)])
    process = subprocess.Popen(
        [sys.executable, "-m", "bushel", "cat", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline()) == {"x": 0}
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=30) == 1  # not all that was asked for was written


def test_an_index_as_text_replaces_a_link_and_does_not_write_through_it(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write({"x": 1})
    (tmp_path / "keep.txt").write_text("keep")
    (tmp_path / "a.tfrecord.idx").symlink_to("keep.txt")
    assert run("index", tmp_path / "a.tfrecord", "--text").returncode == 0
    assert (tmp_path / "keep.txt").read_text() == "keep"
    assert not (tmp_path / "a.tfrecord.idx").is_symlink()
