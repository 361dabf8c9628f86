"""What does a command run of a text that it is sent: by a here-string, or by what stands before it?

That a shell runs whatever comes in was noted already. What is found here is only more to refuse by.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..syntax import Command, Part, PartKind, Redirection, Unread, Word, literal
from .unwrap import Nest
from .wrappers import parsed_of, wrapper_of

__all__ = ["fed", "sent"]


def sent(nest: Nest, redirections: tuple[Redirection, ...]) -> Nest:
    """Return the nest in which something comes in if one of these redirections brings it."""
    brings = any(one.operator in {"<", "<<<"} for one in redirections)
    return replace(nest, sent=True) if brings and not nest.sent else nest


def fed(command: Command, before: Command | None, nest: Nest) -> Command:
    """Return a command with what it runs of its here-string, or of what the one before it prints."""
    text = _here(command) if before is None else _printed(command, before)
    words = _homes(before) if command.program == "xargs" else ()
    more = tuple(map(literal, text.split())) or words
    return _sent(command, text, more, nest) if more and command.words else command


def _here(command: Command) -> str:
    targets = (one.target for one in command.redirections if one.operator == "<<<")
    return next((target.text for target in targets if target.is_literal), "")


def _printed(command: Command, before: Command) -> str:
    if before.name not in {"echo", "printf"} or before.redirections or command.redirections:
        return ""
    words = [word for word in before.words[1:] if not re.fullmatch(r"-[neE]+", word.text)]
    if not all(word.is_literal for word in words):
        return ""
    return " ".join(word.text for word in words).replace("\\n", "\n")


def _homes(before: Command | None) -> tuple[Word, ...]:
    """Return what `echo` prints where a home is among it."""
    if before is None or before.name != "echo" or before.redirections:
        return ()
    known = all(_is_known(part) for word in before.words[1:] for part in word.parts)
    return before.words[1:] if known else ()


def _is_known(part: Part) -> bool:
    return part.kind in {PartKind.LITERAL, PartKind.TILDE} or (part.kind, part.text) == (
        PartKind.VARIABLE,
        "HOME",
    )


def _sent(command: Command, text: str, sent: tuple[Word, ...], nest: Nest) -> Command:
    found = wrapper_of(command.program, command.words)
    try:
        if found is not None and found.runs in {"shell", "later"} and command.notes:
            return replace(command, inner=(*command.inner, nest.line(text)))
        words = parsed_of(command.words, found).operands if found is not None and found.given else ()
        if words and command.program == "xargs":
            more = nest.command((*words, *sent))
            return replace(command, inner=(*command.inner, more))
    except Unread:
        pass
    return command
