"""The command line: one thin function per command over one library call."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bushel import __version__
from bushel.cli.output import say

# The module of each command, loaded when it is called, so that `bushel --help` stays fast.
_COMMANDS = {
    "bench": ("bushel.cli.file_commands", "Measure how fast a dataset is read, and where the time goes."),
    "build": ("bushel.cli.build", "Turn raw files into a sharded TFRecord dataset."),
    "cat": ("bushel.cli.file_commands", "Print records as JSON lines."),
    "check": ("bushel.cli.check", "Find what is wrong with data, pipeline and model."),
    "completion": ("bushel.cli", "Print the completion script of a shell."),
    "doctor": ("bushel.cli.check", "Show what is installed and what this machine has."),
    "explain": ("bushel.cli.check", "Explain a rule of check, and how to fix what it finds."),
    "export": ("bushel.cli.train", "Export a trained model, or a dataset, for programs without bushel."),
    "index": ("bushel.cli.file_commands", "Index files for random access."),
    "info": ("bushel.cli.file_commands", "Show what files hold."),
    "predict": ("bushel.cli.train", "Run a trained model on files."),
    "repair": ("bushel.cli.file_commands", "Keep every intact record of damaged files."),
    "report": ("bushel.cli.file_commands", "Write a report on datasets or runs: one file."),
    "schema": ("bushel.cli.file_commands", "Infer and print the schema of files."),
    "serve": ("bushel.cli.train", "Answer requests with a trained model, over HTTP."),
    "view": ("bushel.cli.file_commands", "Look at datasets in the browser."),
    "train": ("bushel.cli.train", "Train a model on a dataset, and report whether it learned."),
}


class _Terminal:
    """A stream that shows control characters instead of sending them: names and texts in data may hold any.

    Colours that bushel prints pass.
    """

    is_needed = True
    passes = r"\x1b\[[0-9;]{0,20}m"  # to a terminal

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lost: _ResultsLost | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        kept = rf"\r\n|{self.passes}" if self._stream.isatty() else r"\r\n"
        shown = re.sub(_CONTROL.replace("{kept}", kept), lambda found: f"\\x{ord(found[0]):02x}", text)
        return int(self._try(lambda: self._stream.write(shown)) or len(text))

    def flush(self) -> None:
        """Write what waits."""
        self._try(self._stream.flush)

    def _try(self, write: Callable[[], Any]) -> Any:
        try:
            done = write()
        except OSError as error:
            self._lost = _ResultsLost(error)
            # What waits to be written would fail again when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        else:
            if self._lost is None:
                return done
        if self.is_needed:  # each time: some callers try to write, and do without
            raise self._lost
        return None


class _Log(_Terminal):
    """Where progress and messages go: whoever stops reading them does not stop the work. The codes of its bar pass."""

    is_needed = False
    passes = r"\x1b\[(?:[0-9;]{0,20}m|\?25[hl]|K|2K|\d*[AG])|\r"


class _ResultsLost(Exception):
    """Results cannot be written: nobody reads them any more, or the disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the results cannot be written: {(error.strerror or str(error)).lower()}")
        self.is_unread = isinstance(error, BrokenPipeError)


# Control characters, and those that reverse the text around them.
_CONTROL = r"(?!{kept})[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from bushel.errors import nearest

            close = nearest(args[0], _COMMANDS)
            hint = f" Did you mean {close!r}?" if close else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> Any:
        with contextlib.redirect_stdout(_Terminal(sys.stdout)), contextlib.redirect_stderr(_Log(sys.stderr)):
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        from bushel.errors import BushelError

        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except (BushelError, ValueError, ImportError) as error:
            if os.environ.get("BUSHEL_DEBUG"):
                raise
            fail(error.on_command_line if isinstance(error, BushelError) else str(error))
        except KeyboardInterrupt:
            say("bushel: stopped", err=True)
            sys.exit(130)
        except MemoryError as error:
            fail(f"there is not enough memory: {str(error).lower() or 'it ran out'}")
        except RecursionError:
            if os.environ.get("BUSHEL_DEBUG"):
                raise
            fail("what was read is nested too deeply")
        except _ResultsLost as lost:
            if not lost.is_unread:
                say(f"bushel: {lost}", err=True)
            sys.exit(1)
        except OSError as error:
            fail(f"{error.filename or 'bushel'}: {(error.strerror or str(error)).lower()}")


def fail(message: str) -> None:
    """Print what is wrong and exit with code 2."""
    say(f"bushel: {message}", err=True)
    sys.exit(2)


def _show_version(ctx: click.Context) -> None:
    from bushel import _native
    from bushel.cli.check import parts
    from bushel.pixels.codecs import CODEC_WORDS, decoders
    from bushel.records import index, manifest

    say(f"bushel {__version__}")
    say(f"core: {Path(str(_native.__file__)).name}, Python {platform.python_version()}")
    say(f"formats: datasets {manifest.FORMAT}, indexes {index.FORMAT}")
    say(CODEC_WORDS.format(**decoders()))
    there, missing = parts()
    say("extras: " + (", ".join(f"{extra} ({found})" for extra, found in there.items()) or "none"))
    if missing:
        say(f'not installed: {", ".join(missing)}; to add some: pip install "bushel[{missing[0]},…]"')
    ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit: 0 all is well, 1 something was found or refused, 2 wrong arguments or unreadable input.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, is_asked: _show_version(ctx) if is_asked else None,
    help="Show the version and exit.",
)
def cli() -> None:
    """Turn raw files into TFRecord datasets that train well.

    Results go to stdout, progress and messages to stderr.
    Every path may also be one of s3://, gs:// or az://.
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bushel completion bash >> ~/.bashrc
      bushel completion zsh >> ~/.zshrc
      bushel completion fish > ~/.config/fish/completions/bushel.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    say(kind(cli, {}, "bushel", "_BUSHEL_COMPLETE").source())


def main() -> None:
    """Run the command line."""
    warnings.showwarning = _show_warning
    cli(prog_name="bushel")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"note: {message}", err=True)
