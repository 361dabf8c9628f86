"""What does the command line say? Read by argparse into `Options`, then handed to the command it names.

Imports the standard library only: a command's module is loaded when it is called (`_COMMANDS`, the
one place), so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from .exits import CliError, Exit
from .options import Options
from .printer import Printer

__all__ = ["read_command_line", "run"]

_COMMANDS = {
    "call": ".commands:call",
    "check": ".commands:check",
    "audit": ".lookups:audit",
    "tools": ".lookups:tools",
    "config": ".lookups:config",
    "models": ".offered:models",
    "prompt": ".headless:run_prompt",
    "script": ".headless:run_script",
    "chat": ".repl:run_repl",
}

_EPILOG = """\
exit codes: 0 done · 1 error · 2 usage, configuration or validation · 3 calls were refused or a limit
stopped it · 4 somebody or something was missing · 5 no such thing · 7 not permitted · 8 the key was
refused · 10 time ran out · 11 rate limited · 12 model unavailable · 130 interrupted · 143 terminated
"""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (by default that of this process) and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character gets its number, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = read_command_line(words)
        if options is None:
            return Exit.SUCCESS
        return int(_started(options))
    except CliError as error:
        return Printer(_output_of(words)).fail(error)
    except KeyboardInterrupt:
        return Exit.SIGINT


def _started(options: Options) -> Exit:
    name = options.command or _implied(options)
    module, _, function = _COMMANDS[name].partition(":")
    foreground = importlib.import_module(".foreground", __package__)
    command = getattr(importlib.import_module(module, __package__), function)
    gc.freeze()
    gc.enable()
    started: Exit = (foreground.interactive if name == "chat" else foreground.foreground)(command, options)
    return started


def _implied(options: Options) -> str:
    """Return what is meant without a command's name.

    Raises:
        CliError: a chat is meant, and there is no terminal.
    """
    if options.prompt is not None:
        return "prompt"
    if options.script is not None:
        return "script"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError(
            Exit.PRECONDITION,
            "INPUT_REQUIRED",
            "a chat needs a terminal",
            suggestion="-p PROMPT or --script FILE",
        )
    return "chat"


class _Parser(argparse.ArgumentParser):
    """Tells mistakes as an exception, so that they are answered in the form that was asked for."""

    def error(self, message: str) -> NoReturn:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", message, suggestion=f"{self.prog} --help")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"leeward {importlib.import_module('.version', __package__).VERSION}\n")
        parser.exit()


def read_command_line(words: Sequence[str]) -> Options | None:
    """Return what the command line says, or None where `--help` or `--version` has said it all.

    Raises:
        CliError: it cannot be read.
    """
    try:
        found = vars(_parser().parse_args(words))
    except SystemExit:
        return None
    known = {field.name for field in fields(Options)}
    given = {name: value for name, value in found.items() if name in known and value is not None}
    for name in ("urls", "seen"):
        given[name] = tuple(given.get(name, ()))
    options = Options(**given)
    if options.command and (options.prompt is not None or options.script is not None):
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"-p and --script do not go with {options.command}")
    if options.prompt is not None and options.script is not None:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "give -p or --script, not both")
    if options.command == "check" and (options.batch is None) == (not options.tool):
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "check wants TOOL and JSON, or --batch FILE")
    if options.command == "audit" and options.action == "show" and not options.name:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "audit show wants a call's id")
    return options


def _output_of(words: Sequence[str]) -> Options:
    """Return which form was asked for by a command line that cannot be read otherwise."""
    for index, word in enumerate(words):
        value = word.partition("=")[2] or "".join(words[index + 1 : index + 2])
        if word.startswith("--output") and value == "json":
            return Options(output="json")
        if word.startswith("--output") and value == "jsonl":
            return Options(output="jsonl")
    return Options()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="leeward",
        description="An async agent runtime for the terminal. Without a command: a chat.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    parser.add_argument("-p", dest="prompt", metavar="PROMPT", help="one turn, and leave")
    parser.add_argument(
        "--script", metavar="FILE", help="the turns and commands in a file (- is standard input)"
    )
    _common(parser, default=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    common = _Parser(add_help=False, allow_abbrev=False)
    _common(common, default=argparse.SUPPRESS)
    shared = {"parents": [common], "allow_abbrev": False}
    _judging(commands, shared)
    _looking(commands, shared)
    return parser


def _common(parser: argparse.ArgumentParser, default: object) -> None:
    """Add the flags every command has; after a command's name they mean the same as before it."""
    add = parser.add_argument
    add("--config", metavar="FILE", type=Path, default=default, help="this configuration, not the usual one")
    add(
        "--workspace", metavar="FOLDER", type=Path, default=default, help="where to work (the current folder)"
    )
    add("--model", metavar="PROVIDER:NAME", default=default, help="who answers; offline is built in")
    levels = ("readonly", "supervised", "full")
    add("--autonomy", choices=levels, default=default, help="how much is done without asking")
    add("--output", choices=("text", "json", "jsonl"), default=default, help="how the answer is written")
    add("--timeout", metavar="SECONDS", type=_seconds, default=default, help="the wall clock for all of it")
    add("--max-turns", metavar="N", type=_count, default=default, help="replies of the model to one message")
    add("--quiet", action="store_true", default=default, help="the answer and alerts only")
    add("--verbose", action="store_true", default=default, help="results in full")


def _judging(commands: Any, shared: dict[str, Any]) -> None:
    call = commands.add_parser("call", **shared, help="one call through the pipeline, no model")
    call.add_argument("tool", metavar="TOOL")
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}")
    check = commands.add_parser("check", **shared, help="what would be decided, and why")
    check.add_argument("tool", metavar="TOOL", nargs="?", default="")
    check.add_argument("arguments", metavar="JSON", nargs="?", default="{}")
    check.add_argument("--batch", metavar="FILE", help="one JSON object per line (- is standard input)")
    for parser in (call, check):
        parser.add_argument(
            "--url", dest="urls", metavar="URL", action="append", help="a URL the person gave"
        )
        words = ("web", "mcp", "workspace", "secret")
        parser.add_argument("--seen", action="append", choices=words, help="what was read before")


def _looking(commands: Any, shared: dict[str, Any]) -> None:
    audit = commands.add_parser("audit", **shared, help="what was decided and done")
    actions = audit.add_subparsers(dest="action", metavar="list|show", required=True, parser_class=_Parser)
    listing = actions.add_parser("list", **shared, help="the newest records")
    listing.add_argument("--session", dest="name", metavar="ID", help="of this session only")
    listing.add_argument("--limit", metavar="N", type=_count, default=50, help="how many (50)")
    listing.add_argument("--egress", action="store_true", help="only what was opened, or would have been")
    show = actions.add_parser("show", **shared, help="all about one call")
    show.add_argument("name", metavar="CALL", help="its id, or how it begins")
    commands.add_parser("tools", **shared, help="the tools, their trust and effects")
    models = commands.add_parser("models", **shared, help="the models a service offers")
    models.add_argument("name", metavar="PROVIDER", nargs="?", default="", help="the one in use, if left out")
    config = commands.add_parser("config", **shared, help="what is configured, and where")
    words = ("show", "path", "trust", "distrust")
    config.add_argument(
        "action", choices=words, nargs="?", default="show", help="values, files, or this workspace"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (seconds > 0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError("expected a number of seconds above 0")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError("expected a whole number from 1")
    return int(text)
