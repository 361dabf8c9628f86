"""Complete command lines in a shell: `leeward completion SHELL` prints what that reads at its start.

The shell asks back for the words that fit (`leeward completion words -- WORD…`), so that what is completed is
what the parser knows, and nothing is listed twice. Where a file is meant nothing is offered, and the shell
completes files. Imports hardly more than the standard library, as each Tab waits for it; keys of the
configuration alone need what reads one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from leeward.security.lazy import LazyModule

if TYPE_CHECKING:
    from .. import config
else:
    config = LazyModule("leeward.runtime.config")

__all__ = ["SHELLS", "candidates", "completion_text"]

_BASH = """\
_leeward() {
    local IFS=$'\\n'
    COMPREPLY=($(leeward completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _leeward leeward
"""
_ZSH = """\
#compdef leeward
_leeward() {
    local -a found
    found=(${(f)"$(leeward completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _leeward leeward
"""
_FISH = """\
function __leeward_words
    set -l typed (commandline -opc) (commandline -ct)
    set -l found (leeward completion words -- $typed[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c leeward -f -a '(__leeward_words)'
"""
SHELLS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""What each shell is to read: `eval "$(leeward completion bash)"`, or `leeward completion fish | source`."""


def completion_text(parser: argparse.ArgumentParser, shell: str, words: Sequence[str]) -> str:
    """Return what a shell reads at its start, or the words that fit a line being typed, one on each line."""
    if shell in SHELLS:
        return SHELLS[shell]
    return "".join(f"{word}\n" for word in candidates(parser, words))


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return what the last of the words behind `leeward` could become; nothing where a file is meant."""
    *before, typed = words or [""]
    if before[-2:] == ["config", "set"]:
        return sorted(key for key in map(config.dotted, config.KEYS) if key.startswith(typed))
    waiting: argparse.Action | None = None
    places = 0
    for word in before:
        commands = _commands(parser)
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            waiting = _wants_value(parser, word)
        elif word in commands:
            parser, places = commands[word], 0
        else:
            places += 1
    if waiting is not None:
        found = waiting.choices or ()
    elif typed.startswith("-"):
        found = [
            name for action in parser._actions for name in action.option_strings if name.startswith("--")
        ]
    else:
        found = _commands(parser) or _choices(parser, places)
    return sorted({str(word) for word in found if str(word).startswith(typed)})


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    # argparse names its commands nowhere else.
    found = (action.choices for action in parser._actions if isinstance(action.choices, dict))
    return next(found, {})


def _wants_value(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """Return the flag that a word is, if the next word is its value."""
    flags = (action for action in parser._actions if word in action.option_strings)
    return next((action for action in flags if action.nargs != 0), None)


def _choices(parser: argparse.ArgumentParser, place: int) -> Iterator[object]:
    positional = [action for action in parser._actions if not action.option_strings]
    if place < len(positional):
        yield from positional[place].choices or ()
