"""Parse the command line into `Options` with argparse and run the command it names.

Imports the standard library only: a command's module is loaded when it is called (`_COMMANDS`, the
one place), so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import NoReturn, TypeAlias, TypedDict

from leeward.security.lazy import regex

from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer, reopen_closed
from .combination import check_combination

__all__ = ["FORMATS", "moment", "read_command_line", "run"]


FORMATS = ("jsonl", "csv", "otel")
"""The forms in which the audit is exported."""

_SPAN = regex(r"(\d{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, now: Callable[[], float] = time.time) -> float:
    """Return what `--since` means in seconds since the epoch: `2h` ago, or a date with or without a time.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return now() - int(span[1]) * _SECONDS[span[2]]
    try:
        found = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError("expected a time: 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00")
    return found


Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"
"""What a command is added to; argparse has no public name for it."""


class SharedSettings(TypedDict):
    """What the parsers of all commands are made with."""

    parents: Sequence[_Parser]
    allow_abbrev: bool


def _audit(commands: Commands, shared: SharedSettings) -> None:
    audit = commands.add_parser("audit", **shared, help="what was decided and done, and why")
    words = "list|show|why|tail|verify|export|replay|stats"
    actions = audit.add_subparsers(dest="action", metavar=words, required=True, parser_class=_Parser)
    listing = actions.add_parser("list", **shared, help="the newest records")
    tail = actions.add_parser("tail", **shared, help="records as they come, from every process")
    for one, limit in ((listing, 50), (tail, 10)):
        one.add_argument("--limit", metavar="N", type=_count, default=limit, help=f"how many ({limit})")
        _filters(one, "session", "kind", "tool", "denied")
    _filters(listing, "since")
    listing.add_argument("--egress", action="store_true", help="only what was opened, or would have been")
    show = actions.add_parser("show", **shared, help="all records about one call")
    show.add_argument("name", metavar="CALL", help="its id, how it begins, or: last")
    why = actions.add_parser("why", **shared, help="each gate's answer, and what would have allowed it")
    help_of_call = "its id, how it begins, or: last (the last that was refused or asked about)"
    why.add_argument("name", metavar="CALL", nargs="?", default="", help=help_of_call)
    verify = actions.add_parser("verify", **shared, help="whether any record was changed, or is missing")
    verify.add_argument("--head", metavar="LINE|FILE", help="a signed head from a second place")
    export = actions.add_parser("export", **shared, help="all of it, for other programs")
    export.add_argument("--format", dest="form", choices=FORMATS, default="jsonl", help="jsonl, if left out")
    _filters(export, "session", "since", "kind")
    replay = actions.add_parser("replay", **shared, help="what the configuration (--config) would decide")
    _filters(replay, "session", "since")
    stats = actions.add_parser("stats", **shared, help="calls, refusals, questions and failures, counted")
    _filters(stats, "session", "since", "tool")


def _filters(parser: argparse.ArgumentParser, *names: str) -> None:
    add: dict[str, Callable[[], object]] = {
        "session": lambda: parser.add_argument("--session", metavar="ID", help="of this session only"),
        "since": lambda: parser.add_argument(
            "--since", metavar="WHEN", type=moment, help="from then on: 2h, 7d, 2026-01-31"
        ),
        "kind": lambda: parser.add_argument(
            "--kind", dest="kinds", metavar="KIND", action="append", help="decision, outcome, egress, …"
        ),
        "tool": lambda: parser.add_argument("--tool", metavar="TOOL", help="about this tool only"),
        "denied": lambda: parser.add_argument("--denied", action="store_true", help="only what was refused"),
    }
    for name in names:
        add[name]()


_COMMANDS = {
    "call": ".call:call",
    "check": ".call:check",
    "audit": "..audit.commands:audit",
    "permissions": ".permissions:permissions",
    "sessions": ".sessions:sessions",
    "storage": ".storage:storage",
    "tools": ".tools_config:tools",
    "config": ".tools_config:config",
    "config init": ".setup:init",
    "filters": ".filters:filters",
    "scan": ".scan:scan",
    "doctor": ".doctor:doctor",
    "models": ".models:models",
    "mcp": ".mcp:mcp",
    "skills": ".skills:skills",
    "agents": ".agents:agents",
    "prompt": "..script.headless:run_prompt",
    "script": "..script.headless:run_script",
    "scripts": "..script.jobs:run_scripts",
    "chat": "..repl.repl:run_repl",
}

_EPILOG = """\
exit codes: 0 done · 1 error · 2 usage, configuration or validation · 3 calls were refused or a limit
stopped it · 4 somebody or something was missing · 5 no such thing · 6 what came of a call is unknown · 7 not
permitted · 8 the key was refused · 10 time ran out · 11 rate limited · 12 model unavailable · 130 interrupted
· 143 terminated
"""

_FLAG = regex(r"--[a-z][a-z-]*")
_CHOICE = regex(r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)", re.DOTALL)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (by default that of this process) and return the exit code."""
    if arguments is None:
        reopen_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character gets its number, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    printer = Printer(_output_of(words))
    return int(printer.end(_ran(words, printer, is_ours=arguments is None)))


def _ran(words: Sequence[str], printer: Printer, *, is_ours: bool) -> Exit:
    try:
        printer.options = options = read_command_line(words)
        if options.command == "completion":
            completion = importlib.import_module(".completion", __package__)
            raise EarlyOutput(completion.completion_text(_parser(), options.name, options.words))
        return _started(printer, is_ours=is_ours)
    except EarlyOutput as output:
        printer.lines(str(output))
        return Exit.SUCCESS
    except CliError as error:
        return printer.fail(error)
    except KeyboardInterrupt:
        return Exit.SIGINT


def _started(printer: Printer, *, is_ours: bool) -> Exit:
    """Run a command; `is_ours` tells that this whole process is there for nothing else."""
    name = printer.options.command or _implied(printer.options)
    module, _, function = (_COMMANDS.get(f"{name} {printer.options.action}") or _COMMANDS[name]).partition(
        ":"
    )
    foreground = importlib.import_module("..console.foreground", __package__)
    command = getattr(importlib.import_module(module, __package__), function)
    if is_ours:
        importlib.import_module("leeward.tools.process").claim_process()
    gc.freeze()
    gc.enable()
    if name == "chat":
        chatted: Exit = foreground.interactive(command, printer)
        return chatted
    ended: Exit = foreground.foreground(command, printer, is_ours=is_ours)
    return ended


def _implied(options: Options) -> str:
    """Return what is meant without a command's name.

    Raises:
        CliError: a chat is meant, and there is no terminal, or text was piped in.
    """
    if options.prompt is not None:
        return "prompt"
    if options.scripts:
        return "script" if len(options.scripts) == 1 else "scripts"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        if importlib.import_module("..script.stdin", __package__).is_piped():
            raise CliError(
                Exit.ARG_ERROR,
                "ARG_ERROR",
                "text is piped in, and nothing says what to do with it",
                suggestion="… | leeward -p PROMPT adds it as data; … | leeward -p - takes it as your words",
            )
        raise CliError(
            Exit.PRECONDITION,
            "INPUT_REQUIRED",
            "a chat needs a terminal",
            suggestion="-p PROMPT or --script FILE",
        )
    return "chat"


class EarlyOutput(Exception):
    """Ends the reading of a command line that asks for a text only, such as its help."""


class _Parser(argparse.ArgumentParser):
    """Raises mistakes, so that they are reported in the output form the command line asks for."""

    def print_help(self, file: object = None) -> NoReturn:  # noqa: ARG002 - argparse's signature
        raise EarlyOutput(self.format_help())

    def error(self, message: str) -> NoReturn:
        found = _CHOICE.fullmatch(message)
        if found is not None:
            where, word, choices = found.groups()
            if where == "COMMAND" and " " in word.strip("'\""):
                why = "a message is given with -p, and a command is one word"
                raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion=f"leeward -p {word}")
            names = re.findall(r"[a-z-]+", choices)
            what = f"{where}: " if where.startswith("-") else ""
            expected = f"{', '.join(names[:-1])} or {names[-1]}"
            message = f"{what}found {word}, expected {expected}{_nearest(word.strip(chr(39)), names)}"
            if where == "COMMAND":
                hint = (
                    _nearest(word.strip("'"), names) or f"; there are {', '.join(names[:-1])} and {names[-1]}"
                )
                message = f"there is no command {word}{hint}"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", message, suggestion=f"{self.prog} --help")


def _nearest(word: str, names: Iterable[str]) -> str:
    # Without the dashes, which make any two flags look alike.
    bare = {name.lstrip("-"): name for name in names}
    near = [bare[name] for name in difflib.get_close_matches(word.lstrip("-"), bare, n=1)]
    return f"; did you mean {near[0]}?" if near else ""


def _unknown_flag(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Name a flag that no command has; argparse complains about the word behind it instead."""
    flags = set(_flags(parser))
    for word in words:
        name = word.partition("=")[0]
        if word == "--":
            break
        if _FLAG.fullmatch(name) and name not in flags:
            return f"there is no flag {name}{_nearest(name, flags)}"
    return None


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    # argparse names its flags nowhere else.
    for action in parser._actions:
        yield from action.option_strings
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from _flags(inner)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise EarlyOutput(f"leeward {importlib.import_module('..version', __package__).VERSION}\n")


def read_command_line(words: Sequence[str]) -> Options:
    """Return what the command line says.

    Raises:
        CliError: it cannot be read.
        EarlyOutput: it asks for `--help` or `--version`.
    """
    parser = _parser()
    try:
        found = vars(parser.parse_args(words))
    except CliError:
        unknown = _unknown_flag(parser, words)
        if unknown is None:
            raise
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", unknown, suggestion="leeward --help") from None
    known = {field.name for field in fields(Options)}
    given = {name: value for name, value in found.items() if name in known and value is not None}
    for name in ("urls", "seen", "kept", "kinds", "words", "scripts"):
        given[name] = tuple(given.get(name, ()))
    options = Options(**given)
    check_combination(options)
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
    parser.add_argument(
        "-p", dest="prompt", metavar="PROMPT", help="one turn, and leave (- is standard input)"
    )
    parser.add_argument(
        "--script",
        dest="scripts",
        metavar="FILE",
        nargs="+",
        action="extend",
        help="the turns and commands in a file (- is standard input); several are run beside each other",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=_count, help="with several scripts: as many at once (1), each its session"
    )
    parser.add_argument(
        "--report", metavar="FILE", type=Path, help="with --script: write a JUnit report of its steps"
    )
    parser.add_argument(
        "--key", metavar="JOB", help="do each step once: another attempt with this key takes the run up"
    )
    parser.add_argument(
        "--on-unknown",
        choices=("repeat", "skip"),
        help="with --key: repeat or skip a call that may have run when the run broke off",
    )
    parser.add_argument(
        "--output-schema",
        metavar="FILE",
        type=Path,
        help="with -p: the answer must fit the JSON Schema in this file",
    )
    resumed = "resume a session: by the start of its id, or the latest of this workspace"
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", metavar="ID", nargs="?", const="", help=resumed)
    again.add_argument(
        "--continue",
        dest="resume",
        action="store_const",
        const="",
        help="the latest session of this workspace",
    )
    _common(parser, default=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    common = _Parser(add_help=False, allow_abbrev=False)
    _common(common, default=argparse.SUPPRESS)
    shared: SharedSettings = {"parents": [common], "allow_abbrev": False}
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
    add("--profile", metavar="NAME", default=default, help="the profile of your configuration to use")
    add("--model", metavar="PROVIDER:NAME", default=default, help="who answers; offline is built in")
    levels = ("readonly", "supervised", "full")
    add("--autonomy", choices=levels, default=default, help="how much is done without asking")
    add("--output", choices=("text", "json", "jsonl"), default=default, help="how the answer is written")
    add("--timeout", metavar="SECONDS", type=_seconds, default=default, help="the wall clock for all of it")
    add("--max-turns", metavar="N", type=_count, default=default, help="replies of the model to one message")
    add(
        "--trust-workspace",
        action="store_true",
        default=default,
        help="trust what the workspace brings as it is now, in this run",
    )
    add("--quiet", action="store_true", default=default, help="the answer and alerts only")
    add("--verbose", action="store_true", default=default, help="results in full")


def _judging(commands: Commands, shared: SharedSettings) -> None:
    call = commands.add_parser("call", **shared, help="one call through the pipeline, no model")
    tool, given = "its name, as leeward tools lists it", "its arguments, as one object ({})"
    call.add_argument("tool", metavar="TOOL", help=tool)
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help=given)
    check = commands.add_parser("check", **shared, help="what would be decided, and why")
    check.add_argument("tool", metavar="TOOL", nargs="?", default="", help=tool)
    check.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help=given)
    check.add_argument("--batch", metavar="FILE", help="one JSON object per line (- is standard input)")
    rungs = ("trial", "read_only", "real")
    check.add_argument("--rung", choices=rungs, help="what commands can run in, if not as is found here")
    scan = commands.add_parser("scan", **shared, help="what in a text is hidden or looks like an order")
    scan.add_argument("name", metavar="FILE", nargs="?", default="", help="a file (- is standard input)")
    scan.add_argument("--batch", metavar="FILE", help='one {"text": …} per line (- is standard input)')
    for parser in (call, check):
        parser.add_argument(
            "--url", dest="urls", metavar="URL", action="append", help="a URL the person gave"
        )
        words = ("web", "mcp", "workspace", "secret")
        parser.add_argument("--seen", action="append", choices=words, help="what was read before")


def _looking(commands: Commands, shared: SharedSettings) -> None:
    _audit(commands, shared)
    permissions = commands.add_parser("permissions", **shared, help="what is always-allowed")
    actions = permissions.add_subparsers(
        dest="action", metavar="list|revoke", required=True, parser_class=_Parser
    )
    actions.add_parser("list", **shared, help="what holds beyond a session, in every workspace")
    revoking = actions.add_parser("revoke", **shared, help="take one of it back")
    revoking.add_argument("name", metavar="ID", help="as the list names it")
    _sessions(commands, shared)
    _storing(commands, shared)
    _filtering(commands, shared)
    _serving(commands, shared)
    _skills(commands, shared)
    completing = commands.add_parser(
        "completion", **shared, help="what a shell reads to complete command lines"
    )
    completing.add_argument(
        "name", metavar="SHELL", choices=("bash", "zsh", "fish", "words"), help="bash, zsh or fish"
    )
    completing.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    commands.add_parser("tools", **shared, help="the tools, their trust and effects")
    commands.add_parser("doctor", **shared, help="whether what the protection rests on works here")
    models = commands.add_parser("models", **shared, help="the models a service offers")
    models.add_argument("name", metavar="PROVIDER", nargs="?", default="", help="the one in use, if left out")
    _config(commands, shared)


def _config(commands: Commands, shared: SharedSettings) -> None:
    config = commands.add_parser("config", **shared, help="what is configured, and where")
    words = "show|path|init|set|edit|trust|distrust"
    actions = config.add_subparsers(dest="action", metavar=words, parser_class=_Parser)
    config.set_defaults(action="show")
    show = actions.add_parser("show", **shared, help="the values, and where each was set; this, if left out")
    show.add_argument("name", metavar="KEY", nargs="?", default="", help="those whose key begins so (all)")
    actions.add_parser("path", **shared, help="the files, and where data is kept")
    init = actions.add_parser("init", **shared, help="find a model, and write a first file")
    init.add_argument("--url", metavar="URL", help="the address of a model server of yours")
    write = actions.add_parser("set", **shared, help="write one value into your file")
    write.add_argument("name", metavar="KEY", help="such as agent.max_turns")
    write.add_argument("words", metavar="VALUE", nargs=1, help="as a flag has it")
    actions.add_parser("edit", **shared, help="open your file in your editor, as a draft")
    actions.add_parser("trust", **shared, help="read what the workspace brings, as it is now")
    actions.add_parser("distrust", **shared, help="do not read what the workspace brings")


def _sessions(commands: Commands, shared: SharedSettings) -> None:
    sessions = commands.add_parser("sessions", **shared, help="stored conversations")
    words = "list|show|search|export|fork|delete"
    actions = sessions.add_subparsers(dest="action", metavar=words, required=True, parser_class=_Parser)
    listing = actions.add_parser("list", **shared, help="the sessions used last, of every workspace")
    search = actions.add_parser("search", **shared, help="search the conversations")
    search.add_argument("name", metavar="WORDS", help='all of them, or words that begin so; "a phrase"')
    for parser in (listing, search):
        parser.add_argument("--limit", metavar="N", type=_count, default=50, help="how many (50)")
    for action, what in (
        ("show", "print one"),
        ("export", "all of it: as Markdown, as a page with --format html, as JSON with --output json"),
        ("fork", "start a new session from this one"),
        ("delete", "delete its conversation; its audit stays"),
    ):
        one = actions.add_parser(action, **shared, help=what)
        one.add_argument("name", metavar="ID", help="its id, or how it begins")
        if action == "export":
            forms = ("md", "html")
            one.add_argument("--format", dest="form", choices=forms, default="md", help="md, if left out")
        if action == "fork":
            one.add_argument("--turn", metavar="N", type=_count, help="up to this turn (the last)")


def _filtering(commands: Commands, shared: SharedSettings) -> None:
    filters = commands.add_parser("filters", **shared, help="what is shown of the output of programs")
    actions = filters.add_subparsers(dest="action", metavar="list|test", required=True, parser_class=_Parser)
    actions.add_parser("list", **shared, help="the rules, and whose each one is")
    test = actions.add_parser("test", **shared, help="what they leave of an output, and how much that saves")
    test.add_argument("name", metavar="FILE", help="what the program printed (- is standard input)")
    test.add_argument("--as", dest="line", metavar="COMMAND", required=True, help="the command line it is of")
    test.add_argument(
        "--exit", dest="exit_code", metavar="CODE", type=int, default=0, help="its exit code (0)"
    )


def _serving(commands: Commands, shared: SharedSettings) -> None:
    servers = commands.add_parser("mcp", **shared, help="servers of tools, and how far they are trusted")
    words = "list|add|remove|test|tools|trust"
    actions = servers.add_subparsers(dest="action", metavar=words, required=True, parser_class=_Parser)
    actions.add_parser("list", **shared, help="the servers there are")
    for action, what in (
        ("add", "add one to the configuration: mcp add NAME -- COMMAND …"),
        ("remove", "take one out of the configuration"),
        ("test", "start one, and show the tools it lists"),
        ("tools", "the tools it listed when it was started last"),
        ("trust", "trust its tools as they are now; allow one that a workspace names"),
    ):
        one = actions.add_parser(action, **shared, help=what)
        one.add_argument("name", metavar="NAME", help="its name")
        if action == "add":
            one.add_argument("--url", help="where a service is reached, in place of a command")
            one.add_argument("words", metavar="COMMAND", nargs="*", help="the program and its arguments")
        if action == "trust":
            levels = ("trusted", "verified", "quarantined", "blocked")
            one.add_argument("level", choices=levels, metavar="LEVEL", help=", ".join(levels))
            one.add_argument("tool", metavar="TOOL", nargs="?", help="this tool only, as the server names it")
            one.add_argument("--seal", help="what you were shown, by the seal that list and tools print")


def _skills(commands: Commands, shared: SharedSettings) -> None:
    skills = commands.add_parser("skills", **shared, help="texts that say how work is done, and their trust")
    words = "list|show|trust|add|remove"
    actions = skills.add_subparsers(dest="action", metavar=words, required=True, parser_class=_Parser)
    actions.add_parser("list", **shared, help="the skills there are")
    for action, what in (
        ("show", "all of one, to be read before it is trusted"),
        ("trust", "trust one as it is now, or block it"),
        ("add", "copy a folder to your skills"),
        ("remove", "delete one of your skills"),
    ):
        one = actions.add_parser(action, **shared, help=what)
        one.add_argument("name", metavar="FOLDER" if action == "add" else "NAME", help="which one")
        if action == "trust":
            levels = ("trusted", "verified", "quarantined", "blocked")
            one.add_argument("level", choices=levels, metavar="LEVEL", help=", ".join(levels))
            one.add_argument("--seal", help="what you were shown, by the seal that show prints")
    agents = commands.add_parser("agents", **shared, help="other models that do a task for yours")
    actions = agents.add_subparsers(dest="action", metavar="list|show", required=True, parser_class=_Parser)
    actions.add_parser("list", **shared, help="the sub-agents there are")
    one = actions.add_parser("show", **shared, help="all of one")
    one.add_argument("name", metavar="NAME", help="which one")


def _storing(commands: Commands, shared: SharedSettings) -> None:
    storage = commands.add_parser("storage", **shared, help="what is kept, and how much room it takes")
    actions = storage.add_subparsers(
        dest="action", metavar="status|prune|vacuum", required=True, parser_class=_Parser
    )
    actions.add_parser("status", **shared, help="sizes, ages, and whether the file is whole")
    prune = actions.add_parser("prune", **shared, help="delete what is too old")
    prune.add_argument("--older-than", metavar="DAYS", type=_days, help="as configured, if left out")
    for kind, what in (
        ("overflow", "outputs that were too long to show"),
        ("transcripts", "sessions that were not resumed"),
        ("audit", "records before the last signed head that is so old"),
    ):
        prune.add_argument(f"--{kind}", dest="kept", action="append_const", const=kind, help=what)
    actions.add_parser("vacuum", **shared, help="give free room back to the disk")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not (days >= 0 and math.isfinite(days)):
        raise argparse.ArgumentTypeError("expected a number of days from 0")
    return days


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
