"""Find what only a person present may let a command touch: secret or protected files, what runs later.

Looked at are the words of a command that may do more than read, whatever it does with them: as written, by
what a pattern matches, and behind the name of an option. A line of which a word is only known when it runs
was not read in full. What a program does inside is not known here; where it runs on trial, what it changed
is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...paths import protected_reason, runs_later_reason, secret_reason
from ..expand import Placed, is_sink, where
from ..syntax import Command, PartKind, Word, literal
from .paths import STREAMS, Objection, Scene
from .readonly import is_listed

__all__ = ["touched"]

# Programs that change the files they are given, and options that name one.
_CHANGING = frozenset(
    "cp mv install ln rsync scp tee sponge dd truncate touch sed mkdir rmdir rm unlink shred patch ed ex tar "
    "unzip chmod chown chgrp chattr setfacl chcon setcap".split()
)
_OUTPUTS = ("-o", "-O", "--out")
_TEXT_PROGRAMS = frozenset({"echo", "printf"})
_UNKNOWN = frozenset(
    {PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION, PartKind.ARITHMETIC, PartKind.GIVEN}
)
_LONGEST_PATH = 4096  # Linux' PATH_MAX
# Programs, headers and devices are named to be used by most programs.
_USED = ("/usr/", "/bin/", "/proc/", "/sys/", "/dev/")


def touched(at: Placed, problem: Objection, scene: Scene) -> Iterator[Objection]:
    """Yield what speaks against a command that may do more than read; `problem` says why it may."""
    command = at.command
    for redirection in command.redirections:
        if redirection.writes and not is_sink(redirection):
            yield from _problems(redirection.target, scene, changes=True)
    # Programs that only read and print are held to where they may read elsewhere.
    only_reads = is_listed(command.program) and problem.rule in {"protected", "outside", "search"}
    if command.program in _TEXT_PROGRAMS or only_reads:
        return
    changes, inner = command.program in _CHANGING, _runs(command)
    words = (
        (word, changes or before.text.startswith(_OUTPUTS) or word.text.startswith(_OUTPUTS))
        for before, word in pairwise(command.words)
        if word.text not in inner
    )
    for word, is_changed in dict.fromkeys(words):
        yield from _problems(word, scene, changes=is_changed)


def _runs(command: Command) -> frozenset[str]:
    """Return the words of what a command runs in turn, which are looked at there."""
    inner = (one for one in command.inner if isinstance(one, Command))
    return frozenset(word.text for one in inner for word in one.words)


def _problems(word: Word, scene: Scene, *, changes: bool) -> Iterator[Objection]:
    paths = tuple(_named(word, scene))
    if any(_is_unknown(word, scene)) or (changes and None in paths):
        yield Objection("dynamic", "what it is given is only known when it runs", word.text)
    for path in filter(None, paths):
        if path in STREAMS:
            continue
        if (why := secret_reason(path, scene.policy)) is not None:
            yield Objection("secret", f"it touches a secret file: {why}", path)
        elif (why := protected_reason(path, scene.policy)) is not None:
            if changes or not path.startswith(_USED):
                yield Objection("protected", f"it touches a protected file: {why}", path)
        elif changes and (why := runs_later_reason(path)) is not None:
            yield Objection("runs_later", f"it changes a file that is executed later: {why}", path)


def _is_unknown(word: Word, scene: Scene) -> Iterator[bool]:
    """Yield for each piece of a word whether it is only known when it runs; where a home is, is known."""
    known = where(word, scene.folders, scene.policy) is not None
    return (part.kind in _UNKNOWN and not known for part in word.parts)


def _named(word: Word, scene: Scene) -> Iterator[str | None]:
    """Yield the paths a word may mean, also as the value of an option; None where that could be any."""
    if word.is_literal and (not word.text or len(word.text) > _LONGEST_PATH or "\n" in word.text):
        return
    for one in (word, *_values_in(word.text)) if word.is_literal else (word,):
        if one.text.startswith("-"):
            continue
        if any(part.kind is PartKind.OUTPUT for part in one.parts):
            continue
        found = where(one, scene.folders, scene.policy)
        if found is None:
            yield None
        for candidate in found or ():
            paths = scene.facts.matches.get(candidate.path) if candidate.is_glob else (candidate.path,)
            if paths is None:
                yield None
            for path in paths or ():
                yield path
                yield scene.facts.real.get(path, path)


def _values_in(text: str) -> Iterator[Word]:
    """Yield what may be a path within a word: behind `=`, `@` or `:`, or right behind a letter."""
    attached = text[2:] if text[:1] == "-" and text[1:2] != "-" else ""
    values = (text, text.partition("=")[2], text.rpartition(":")[2], attached)
    bare = dict.fromkeys(value.removeprefix("@") for value in values)
    yield from (literal(value) for value in bare if value and value != text)
