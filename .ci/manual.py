"""Print the manual page of the command, made from what its parser knows.

python .ci/manual.py > docs/leeward.1
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

from leeward.runtime.cli.main import _EPILOG, _parser
from leeward.runtime.version import VERSION

HEAD = f"""\
.\\" Made by .ci/manual.py; a test compares the two.
.TH LEEWARD 1 "" "leeward {VERSION}" "User Commands"
.SH NAME
leeward \\- an agent runtime for the terminal with the security pipeline built in
.SH SYNOPSIS
.B leeward
.RI [ FLAGS ]
.br
.B leeward
.RI [ FLAGS ]
.B \\-p
.I PROMPT
.br
.B leeward
.RI [ FLAGS ]
.I COMMAND
.RI [ ARGUMENTS ]
.SH DESCRIPTION
Without a command, at a terminal, a chat with a model that works in the current folder. Every tool call is
judged before it runs, and every decision is on record;
.B leeward audit why
explains one. Nothing has to be configured for a first look: an offline model is built in.
"""
TAIL = """\
.SH ENVIRONMENT
.TP
.B LEEWARD_CONFIG
the configuration file, in place of the usual one
.TP
.B LEEWARD_PROFILE
the profile of the configuration
.TP
.BI LEEWARD_ SECTION __ KEY
any value of the configuration, such as LEEWARD_AGENT__MAX_TURNS
.TP
.BR VISUAL ", " EDITOR
the editor of
.B leeward config edit
.TP
.B NO_COLOR
leaves colours out
.SH FILES
.TP
.I ~/.config/leeward/config.toml
the configuration;
.B leeward config path
says where all files are
.TP
.I .leeward/config.toml
what a workspace brings, which can only tighten, and only once it is trusted
"""


def escaped(text: str) -> str:
    """Return a text as roff prints it literally, on one line."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def own_actions(parser: argparse.ArgumentParser, shared: set[str]) -> Iterator[argparse.Action]:
    """Yield what a parser takes beside the flags that every command has."""
    for action in parser._actions:
        is_hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction)
        if not is_hidden and not shared & {*action.option_strings}:
            yield action


def entry(action: argparse.Action) -> Iterator[str]:
    """Yield the lines about one flag or argument."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    value = metavar or choices or (action.dest.upper() if not action.option_strings else "")
    takes = value and action.nargs != 0
    shown = f" \\fI{escaped(value)}\\fR" if takes else ""
    flags = ", ".join(f"\\fB{escaped(flag)}\\fR" for flag in action.option_strings)
    yield from (".TP", f"{flags}{shown}".strip(), escaped(action.help or ""))


def commands(parser: argparse.ArgumentParser, name: str, what: str, shared: set[str]) -> Iterator[str]:
    """Yield the section of a command, and those of its actions."""
    actions = [*own_actions(parser, shared)]
    inner = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    if name:
        yield from (f".SS {escaped(name)}", escaped(what))
        for action in actions:
            if action not in inner:
                yield from entry(action)
    for action in inner:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for word, child in action.choices.items():
            yield from commands(child, f"{name or 'leeward'} {word}", helps.get(word, ""), shared)


def page() -> str:
    """Return the whole page."""
    parser = _parser()
    shared = {flag for action in parser._actions for flag in action.option_strings}
    flags = [line for action in own_actions(parser, set()) if action.option_strings for line in entry(action)]
    codes = re.sub(r"^exit codes: ", "", " ".join(_EPILOG.split())).split(" · ")
    pairs = [code.split(" ", 1) for code in codes]
    status = [line for code, what in pairs for line in (".TP", f".B {code}", escaped(what))]
    return HEAD + "\n".join(
        (
            ".SH FLAGS",
            *flags,
            ".SH COMMANDS",
            *commands(parser, "", "", shared),
            ".SH EXIT STATUS",
            *status,
            TAIL,
        )
    )


if __name__ == "__main__":
    sys.stdout.write(page())
