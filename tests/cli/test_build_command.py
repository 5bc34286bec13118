"""`bushel build` and `bushel cat --record`, as a user types them."""

import json
import os
import re
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from making import digests

from bushel import Writer
from bushel.cli import cli


def bushel(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bushel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    names = ["cat", "dog", "bird"]
    lines = [f"p{n},{n % 90},{names[n % 3]}" for n in range(300)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,age,species", *lines]) + "\n")
    return tmp_path


def test_a_table_becomes_a_dataset_and_the_summary_says_what_it_holds(rows):
    done = bushel("build", "rows.csv", "data", "--label", "species", "--key", "id", "--split", "80/20", cwd=rows)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("taken for: table (--kind KIND reads another)")
    lines = lines[next(at for at, line in enumerate(lines) if not line) + 1 :]
    assert lines[0].startswith("data: 300 records in 2 shards, ")
    assert lines[2].split() == ["split", "records", "shards", "bytes"]
    assert lines[6].split() == ["class", "train", "val", "weight"]
    assert [line.split()[0] for line in lines[7:10]] == ["bird", "cat", "dog"]


def test_a_recipe_makes_the_same_dataset_again_byte_for_byte(rows):
    options = ("--label", "species", "--split", "70/30", "--stratify", "species", "--seed", 5, "--compression", "gzip")
    assert bushel("build", "rows.csv", "one", *options, cwd=rows).returncode == 0
    assert bushel("build", "one/recipe.toml", "two", cwd=rows).returncode == 0
    assert digests(rows / "one") == digests(rows / "two")
    assert (rows / "one" / "recipe.toml").read_text() == (rows / "two" / "recipe.toml").read_text()


def test_refused_samples_make_exit_code_one_unless_they_are_allowed(rows):
    options = ("--label", "species", "--constrain", "age:max=88")
    refused = bushel("build", "rows.csv", "data", *options, cwd=rows)
    assert refused.returncode == 1
    assert "refused: 3 of 300 samples (1.00%), each named in data/_quarantine.jsonl" in refused.stdout
    assert "  3 times: schema: age is 89, above 88" in refused.stdout
    assert bushel("build", "rows.csv", "allowed", *options, "--max-bad", "1%", cwd=rows).returncode == 0
    stopped = bushel("build", "rows.csv", "stopped", *options, "--max-bad", 2, cwd=rows)
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert (
        stopped.stderr.splitlines()[0]
        == "bushel: stopped: 3 samples refused, more than the 2 allowed; the build stopped"
    )


def test_an_error_in_a_worker_is_one_clear_message(rows):
    options = ("--constrain", "age:max=50", "--strict", "--workers", 2, "--order", "source", "--shards", 30)
    bushel("build", "rows.csv", "records", "--shards", 30, cwd=rows)
    done = bushel("build", "records", "again", *options, cwd=rows)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[0] == "bushel: again: 1 sample refused, and none is allowed; the build stopped"
    assert lines[1].startswith("  The ")
    assert len(lines) == 3


def test_a_plan_prints_what_would_be_built_and_builds_nothing(rows):
    done = bushel("build", "rows.csv", "data", "--plan", "--label", "species", "--split", "80/20", cwd=rows)
    assert done.returncode == 0
    assert done.stdout.startswith("taken for: table (--kind KIND reads another)")
    assert "\n300 samples, about " in done.stdout
    assert not (rows / "data").exists()
    outline = json.loads(bushel("build", "rows.csv", "--plan", "--json", cwd=rows).stdout)
    assert outline["splits"]["train"]["samples"] == 300


def test_a_record_leads_back_to_its_file_and_row(rows):
    bushel("build", "rows.csv", "data", "--label", "species", "--key", "id", "--split", "80/20", cwd=rows)
    found = json.loads(bushel("cat", "data", "--record", "val:7", cwd=rows).stdout)
    number = int(found["key"].removeprefix("p"))
    assert found["source"] == f"rows.csv: row {number}"
    assert found["sample"]["age"] == number % 90
    (rows / "rows.csv").unlink()
    found = json.loads(bushel("cat", "data", "--record", "val:7", cwd=rows).stdout)
    assert found["key"] == f"p{number}"
    assert found["source"] == "unknown: rows.csv: there is no such file"


def test_a_record_of_files_of_others_is_printed_with_its_place(rows):
    with Writer(rows / "a.tfrecord") as writer:
        for number in range(3):
            writer.write({"x": number})
    found = json.loads(bushel("cat", "a.tfrecord", "--record", "all:2", cwd=rows).stdout)
    assert (found["shard"], found["record_in_shard"], found["sample"]) == ("a.tfrecord", 2, {"x": 2})
    assert found["byte"] == 2 * (rows / "a.tfrecord").stat().st_size // 3
    assert "record must be from 0 to 2, got 3" in bushel("cat", "a.tfrecord", "--record", "all:3", cwd=rows).stderr


def test_appending_adds_what_is_new(rows):
    bushel("build", "rows.csv", "data", "--label", "species", "--key", "id", cwd=rows)
    with (rows / "rows.csv").open("a") as file:
        file.write("new,5,ant\n")
    without_key = bushel("build", "rows.csv", "data", "--append", cwd=rows)
    assert without_key.returncode == 2
    assert without_key.stderr.startswith("bushel: data: was built with key 'id', and what is added must be too")
    done = bushel("build", "rows.csv", "data", "--append", "--key", "id", cwd=rows)
    assert done.returncode == 0
    assert "\ndata: 301 records, 1 of them new in 2 shards, " in done.stdout
    assert not (rows / "data" / "_journal").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope.csv", "data"], "bushel: nope.csv: there is no such file"),
        (["rows.csv", "data", "--label", "speces"], "bushel: source: no column 'speces'; did you mean 'species'?"),
        (["rows.csv", "data", "--split", "80/x"], "bushel: split must be as 80/10/10 or train=0.8,val=0.2; got '80/x'"),
        (["rows.csv", "data", "--seed", "-4"], "bushel: seed must be from 0 to 2^63 - 1, got -4"),
        (["rows.csv", "data", "--workers", "0"], "bushel: workers must be at least 1, got 0"),
        (["rows.csv", "data", "--max-bad", "x"], "bushel: max_bad must be a count or a share such as 0.1%, got 'x'"),
        (
            ["rows.csv", "data", "--shard-size", "big"],
            "bushel: shard_size must be a number of bytes such as",
        ),
        (["rows.csv", "data", "--append"], "bushel: data: there is no finished dataset here to add to"),
        (["rows.csv", "rows.csv"], "bushel: rows.csv: is a file, and a dataset is a folder"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line_and_exit_code_two(rows, arguments, message):
    done = bushel("build", *arguments, cwd=rows)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0].startswith(message)
    assert not (rows / "data").exists()


def test_an_unknown_key_of_a_recipe_offers_the_nearest(rows):
    (rows / "recipe.toml").write_text('sead = 5\n[source]\npath = "rows.csv"\n')
    done = bushel("build", "recipe.toml", "data", cwd=rows)
    assert done.returncode == 2
    assert done.stderr == "bushel: recipe.toml: no key 'sead'; did you mean 'seed'?\n"


def test_a_terminal_shows_how_far_it_is_how_fast_how_long_still_and_what_was_refused(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("x,label\n" + "".join(f"{i},{'a' if i % 50 else ''}\n" for i in range(2000)))
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [sys.executable, "-m", "bushel", "build", str(table), str(tmp_path / "out")]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the other end was closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert process.wait() == 1
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"plan .* \d+ s", text)
    assert re.search(r"write +━+ +2000/2000 [\d,]+/s, [\d.]+ \w+/s, 40 refused 0:00:00", text) or re.search(
        r"read +━+ +2000/2000 [\d,]+/s, [\d.]+ \w+/s, 40 refused 0:00:00", text
    )


def test_help_has_its_many_options_under_headings():
    done = CliRunner().invoke(cli, ["build", "--help"])
    headings = [line for line in done.output.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "What to read:"
    assert headings[-2:] == ["Run:", "Help:"]
    assert "Text:" in headings
    assert done.output.index("\nText:") < done.output.index("--tokenise") < done.output.index("\nImages:")
    assert "Data:" in CliRunner().invoke(cli, ["train", "--help"]).output


def test_a_split_without_a_sample_is_no_damage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("x,part\n" + "1,train\n" * 9 + "9,val\n")
    options = ["--split", "part", "--constrain", "x:max=5", "--workers", "1"]
    done = CliRunner().invoke(cli, ["build", "rows.csv", "data", *options])
    assert (done.exit_code, "1 time: schema: x is 9, above 5" in done.output) == (1, True), done.output
    assert (tmp_path / "data" / "val-00000-of-00001.tfrecord").stat().st_size == 0
    for command in ("info", "schema", "cat", "index", "repair"):
        done = CliRunner().invoke(cli, [command, "data", *(["kept"] if command == "repair" else [])])
        assert done.exit_code == 0, done.output
    (tmp_path / "data" / "train-00000-of-00001.tfrecord").write_bytes(b"")
    done = CliRunner().invoke(cli, ["info", "data"])
    assert (done.exit_code, "train-00000-of-00001.tfrecord: is empty: 0 bytes" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,species\n1,x\n2,y\n", "note: no label: there is no column 'label'; is it 'species'? Then: --label species"),
        ("a,kind\n1.5,x\n2.5,y\n", "is it 'kind'? Then: --label kind --overwrite"),
        ("a,b\n1.5,2.5\n2.5,3.5\n", "note: no label: there is no column 'label', and --label COL names none"),
    ],
)
def test_a_build_without_a_label_says_so_with_the_likely_column(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    result = CliRunner().invoke(cli, ["build", str(tmp_path / "rows.csv"), str(tmp_path / "out")])
    assert (result.exit_code, said in result.output) == (0, True)


def test_the_same_command_again_says_that_there_is_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    command = ["build", str(tmp_path / "rows.csv"), str(tmp_path / "out")]
    assert CliRunner().invoke(cli, command).exit_code == 0
    again = CliRunner().invoke(cli, command)
    assert (again.exit_code, again.output) == (
        0,
        f"{tmp_path / 'out'}: nothing to do: this recipe built it, and its source has not changed since\n",
    )


def test_names_of_classes_are_shown_and_not_obeyed_by_a_terminal(tmp_path: Path) -> None:
    hostile = "b\x1b[8mhidden\x1b[0m\rover\u202e"
    (tmp_path / "rows.csv").write_bytes(f'text,label\na,"{hostile}"\nb,c\nc,c\n'.encode())
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "bushel", "build", "rows.csv", "out", "--workers", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 65536):
                shown += piece
    os.close(ours)
    assert process.returncode == 0
    assert b"b\\x1b[8mhidden\\x1b[0m\\rover\\u202e" in shown
    assert b"\x1b" not in shown
    assert b"\r" not in shown.replace(b"\r\n", b"")
