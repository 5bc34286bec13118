"""What `--help` shows, and that every flag, shown or not, parses."""

import io
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bushel.cli import _COMMANDS, cli
from bushel.cli.flags import Flag
from bushel.training.options import Options

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
# Flags that scripts may use, shown by `--help` or not.
OLD = {
    "build": """split exact stratify group label key columns rename type constrain kind set limit seed order shard-size
        shards compression require fill log standardise min-max robust-scale encode one-hot transform balance
        balance-ratio balance-categories augment text clean tokenise vocabulary min-count length tfidf hash-ngrams
        ngrams embed verify keep-bytes resize fit kernel image-format scaled images bad-boxes masks tiles overlap
        windows stride time series every gap label-from split-by frames fps workers max-bad strict no-check append
        overwrite engine address plan json help""",
    "train": """label task columns split ignore no-preflight model loss epochs batch-size learning-rate schedule warmup
        optimiser optimizer mixed-precision augment class-weights early-stopping strategy seed not-deterministic
        image-size range shuffle no-shuffle shuffle-buffer threads on-fault out evaluate resume overwrite
        checkpoint-every no-tensorboard json help""",
}


def shown(command: str, flag: str = "--help") -> list[str]:
    done = CliRunner().invoke(cli, [command, flag])
    assert done.exit_code == 0, done.output
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", done.stdout, re.MULTILINE)


def command_named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def flags_of(name: str) -> set[str]:
    command = command_named(name)
    context = click.Context(command, help_option_names=["-h", "--help"])
    names = [flag for option in command.get_params(context) for flag in (*option.opts, *option.secondary_opts)]
    return {flag for flag in names if flag.startswith("--")}


@pytest.mark.parametrize(("command", "most"), [("build", 35), ("train", 25)])
def test_help_shows_few_options_and_help_all_shows_the_rest(command: str, most: int) -> None:
    usual, everything = shown(command), shown(command, "--help-all")
    assert len(usual) <= most
    assert set(usual) < set(everything)
    # A flag with two spellings is one line.
    assert flags_of(command) - set(everything) <= {"--optimizer", "--standardize", "--tokenize", "--no-shuffle"}


@pytest.mark.parametrize("command", OLD)
def test_no_flag_was_lost(command: str) -> None:
    assert {f"--{name}" for name in OLD[command].split()} <= flags_of(command)


def test_every_flag_of_the_design_is_there() -> None:
    section = DESIGN.read_text().split("## 9. The command line")[1].split("\n## ")[0]
    listed = re.search(r"```\w*\n(build   .*?)```", section, re.DOTALL)
    assert listed is not None
    for command, text in re.findall(r"^(\w+) +(.*?)(?=^\w|\Z)", listed[1], re.MULTILINE | re.DOTALL):
        assert set(re.findall(r"--[\w-]+", text)) <= flags_of(command), command


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_help_of_flags_is_a_phrase_without_a_full_stop(command: str) -> None:
    for option in command_named(command).params:
        if isinstance(option, Flag):
            assert option.help, option.name
            assert option.help[0].isupper(), option.help
            assert not option.help.endswith("."), option.help


VALUES = {"--trust": "bushel.transforms.image:DecodeImage"}  # of flags that do not take any text


@pytest.mark.parametrize("command", ["build", "train"])
def test_each_flag_parses(command: str) -> None:
    made = command_named(command)
    for option in made.params:
        if not isinstance(option, click.Option) or option.is_eager:
            continue
        for name in (*option.opts, *option.secondary_opts):
            value = option.type.choices[0] if isinstance(option.type, click.Choice) else VALUES.get(name, "1")
            arguments = ["a", "b", name] if option.is_flag else ["a", "b", name, value]
            context = made.make_context(command, arguments)
            assert context.get_parameter_source(option.name or "") == click.core.ParameterSource.COMMANDLINE


def test_help_all_lists_what_set_reaches() -> None:
    text = " ".join(CliRunner().invoke(cli, ["build", "--help-all"]).stdout.split())
    assert "Options of sources, for --set NAME=VALUE" in text
    assert "webdataset verify, keep_bytes, allow" in text


def test_set_refuses_an_option_that_the_source_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "rows.csv"), "--plan", "--set", "delimeter=;"])
    assert done.exit_code == 2
    assert "bushel: table has no option 'delimeter'; did you mean 'delimiter'? (there are: columns, " in done.stderr


def test_a_source_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "rows.csv"), "--plan", "--kind", "series"])
    assert done.exit_code == 2
    needs = "series needs time (column of times: numbers, or dates), length (rows per window)"
    assert done.stderr == f"bushel: {needs}; on the command line: --windows N --time COL\n"


def test_set_reaches_an_option_that_has_no_flag(tmp_path: Path) -> None:
    (tmp_path / "rows.data").write_text("a;b\n1;2\n")
    arguments = ["--plan", "--json", "--kind", "table", "--set", "format=csv", "--set", "delimiter=;"]
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "rows.data"), *arguments])
    assert done.exit_code == 0, done.stderr
    assert '"samples": 1' in done.stdout


@pytest.mark.parametrize("field", Options.__struct_fields__)
def test_set_reaches_every_option_of_training(field: str) -> None:
    from bushel.cli.train import _options

    default = getattr(Options(), field)
    text = {
        "label": "y",
        "group": "person",
        "task": "regression",
        "columns": '["a"]',
        "model": "m.keras",
        "weights": "w.weights.h5",
        "loss": "mse",
        "learning_rate": "0.1",
        "schedule": "cosine",
        "warmup": "0.1",
        "optimiser": "sgd",
        "precision": "mixed_float16",
        "augment": "flip",
        "class_weights": "{cat = 2.0}",
        "strategy": "mirrored",
        "image_size": "[8, 9]",
        "range": "0..1",
        "ignore": '["FIL001"]',
        "kinds": '{x = "number"}',
        "on_fault": "skip",
    }.get(field, "false" if default is True else "3")
    assert getattr(_options({"set_": (f"{field}={text}",)}, Options()), field) != default


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("epoch=3", "training has no option 'epoch'; did you mean 'epochs'? (there are: label, task"),
        ("epochs=many", "--set epochs: expected `int`, got `str`"),
        ("optimiser=adan", "--set optimiser: must be one of adam, adamw"),
        ("epochs=0", "epochs must be at least 1, got 0"),
        ("epochs", "--set must be NAME=VALUE, got 'epochs'"),
    ],
)
def test_a_wrong_setting_of_training_is_one_clear_line(setting: str, why: str) -> None:
    done = CliRunner().invoke(cli, ["train", "data", "--set", setting])
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())


def test_lines_of_a_run_fit_the_terminal_and_stay_whole_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.cli.train import _fitted

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    line = "inputs: " + ", ".join(f"'column {number}'" for number in range(12))
    fitted = _fitted(line, Terminal()).splitlines()
    assert max(map(len, fitted)) <= 40
    assert " ".join(part.strip() for part in fitted) == line
    assert _fitted(line, io.StringIO()) == line
