"""See that the flags of a command line go together. Imports the standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from ..exits import CliError, Exit
from ..options import Options

__all__ = ["check_combination"]


def check_combination(options: Options) -> None:
    """See that what was given goes together.

    Raises:
        CliError: it does not; the first thing that is wrong.
    """
    for why, suggestion in (*_of_runs(options), *_of_keys(options), *_of_commands(options)):
        detail = {"suggestion": suggestion} if suggestion else {}
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, **detail)


def _of_runs(options: Options) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the flags of -p and --script."""
    is_prompt, is_script = options.prompt is not None, bool(options.scripts)
    if options.command and (is_prompt or is_script):
        yield f"-p and --script do not go with {options.command}", ""
    if options.command and options.resume is not None:
        yield f"--resume does not go with {options.command}", "leeward sessions --help"
    if is_prompt and is_script:
        yield "give -p or --script, not both", ""
    if options.jobs is not None and not is_script:
        yield "--jobs goes with --script", ""
    if len(options.scripts) > 1 and options.resume is not None:
        yield "each of several scripts has a session of its own, so none is resumed", ""
    if options.scripts.count("-") > 1:
        yield "standard input is one script, so - is given once", ""
    if options.report is not None and not is_script:
        yield "--report goes with --script", ""
    if options.output_schema is not None and not is_prompt:
        yield "--output-schema goes with -p", ""


def _of_keys(options: Options) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with --key and what goes with it."""
    if options.key is None:
        if options.on_unknown is not None:
            yield "--on-unknown goes with --key", ""
        return
    if options.prompt is None and not options.scripts:
        yield "--key goes with -p and --script", ""
    if options.resume is not None:
        yield "--key names a session of its own, so it does not go with --resume or --continue", ""


def _of_commands(options: Options) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the words of a command."""
    if options.command == "check" and (options.batch is None) == (not options.tool):
        yield "check needs TOOL and JSON, or --batch FILE", ""
    if options.command == "scan" and (options.batch is None) == (not options.name):
        yield "scan needs FILE, or --batch FILE", ""
    if options.command == "audit" and options.action == "show" and not options.name:
        yield "audit show needs the id of a call", ""
