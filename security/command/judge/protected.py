"""Secret or protected files that a program touches, now or by what something executes later.

They are looked for among its words, whatever it does with them: as written, by what a pattern
matches, behind the name of an option, and among what a search hands to it. Files changed by redirections and
by programs that write, copy or move are held against what something runs later; what a script does inside is
not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from ...paths import protected_reason, runs_later_reason, secret_reason
from ..expand import COPIERS, Candidate, Placed, copied, outputs, where
from ..syntax import Command, Part, PartKind, Word, literal
from .paths import STREAMS, Objection, Scene, content_problem
from .readonly import program_of

__all__ = ["changed_later", "named", "touched"]


_WRITERS = frozenset("tee sed touch truncate dd sponge mkdir patch ed ex".split())
_MOST_WORDS = 64


def changed_later(at: Placed, named: Callable[[Word], Iterable[str]]) -> Iterator[Objection]:
    """Yield the first of these files; `named` are the paths that a word may mean."""
    for path in _changed(at, named):
        why = runs_later_reason(path)
        if why is not None:
            yield Objection("runs_later", f"it changes what acts later without being named: {why}", path)
            return


def _changed(at: Placed, named: Callable[[Word], Iterable[str]]) -> Iterator[str]:
    for redirection in at.command.redirections:
        if redirection.writes:
            yield from named(redirection.target)
    words = at.command.words[1:_MOST_WORDS]
    for word in words if at.command.program in _WRITERS else outputs(words):
        yield from named(word)
    if at.command.program in COPIERS:
        sources, targets = copied(words, at.command.program)
        for target in targets:
            yield from _placed_in(target, sources, named)


def _placed_in(
    target: Word, sources: tuple[Word, ...], named: Callable[[Word], Iterable[str]]
) -> Iterator[str]:
    """Yield what may be written; where the target is a folder, each source gets its own name in it."""
    # The folder of a source may be known only when it runs; its name is what is written all the same.
    paths = (path for source in sources for path in (source.text.rstrip("/"), *named(source)))
    names = dict.fromkeys(map(posixpath.basename, paths))
    for path in named(target):
        yield path
        # A file is called `x.txt`, a folder is not.
        if not posixpath.splitext(target.text.rstrip("/"))[1] or target.text.endswith("/"):
            yield from (posixpath.join(path, name) for name in names)


_TEXT_PROGRAMS = frozenset("echo printf".split())


def touched(at: Placed, problem: Objection, scene: Scene) -> Iterator[Objection]:
    """Find secret files among the words of a program that does more than read, and protected ones."""
    only_reads, only_names = problem.rule == "outside", problem.rule == "protected"
    known = program_of(at.command.program)
    shows_names = known is not None and known.operands.endswith("names")
    if at.command.program in _TEXT_PROGRAMS or (only_names and shows_names):
        return
    pattern = _open_pattern(at.command.words[1:], scene)
    if pattern is not None and not (only_reads or only_names):
        yield pattern
    # What it runs in turn is a command of its own, with words of its own.
    inner = {word.text for one in at.command.inner if isinstance(one, Command) for word in one.words}
    for word in dict.fromkeys(word for word in at.command.words[1:] if word.text not in inner):
        given = content_problem(word, scene) if any(map(_is_given, word.parts)) else None
        if given is not None and given.rule == "hides" and problem.rule != "hides":
            yield Objection("secret", f"it touches what a search finds: {given.reason}", given.value)
            return
        for path in named(word, scene):
            if path in STREAMS:
                continue
            why = secret_reason(path, scene.policy)
            if why is not None:
                yield Objection("secret", f"it touches a secret file: {why}", path)
                return
            why = protected_reason(path, scene.policy)
            if why is not None and "/" in word.text and not only_reads and not _is_only_named(at, path):
                yield Objection("protected", f"it touches a protected file: {why}", path)
                return


def _is_given(part: Part) -> bool:
    return part.kind is PartKind.GIVEN


def _is_only_named(at: Placed, path: str) -> bool:
    """Whether a path into the system is likely a program or a header that is used, not changed."""
    return path.startswith(_READABLE) and at.command.program not in _CHANGING


_CHANGING = frozenset(
    "cp mv install ln sed chmod chown chgrp touch rsync tar unzip patch tee dd mkdir rmdir setcap".split()
)
_READABLE = (
    "/usr/bin/",
    "/usr/share/",
    "/usr/lib/",
    "/usr/include/",
    "/bin/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/local/",
)


def named(word: Word, scene: Scene) -> Iterator[str]:
    """Yield the paths a word may mean, also as the value of an option."""
    if word.is_literal and (len(word.text) > 4096 or "\n" in word.text or not word.text):
        return
    for one in (word, *_values_in(word.text)) if word.is_literal else (word,):
        if not one.text or one.text.startswith("-"):
            continue
        for candidate in where(one, scene.folders, scene.ground) or ():
            for path in _matched(candidate, scene) or ():
                yield path
                real = scene.facts.real.get(path)
                if real is not None:
                    yield real


def _values_in(text: str) -> Iterator[Word]:
    """Yield what may be the value of an option: behind `=` or `@`, or right behind a letter."""
    attached = text[2:] if text[:1] == "-" and text[1:2] != "-" else ""
    values = (value.removeprefix("@") for value in (text, text.partition("=")[2], attached))
    yield from (literal(value) for value in dict.fromkeys(values) if value and value != text)


def _matched(candidate: Candidate, scene: Scene) -> tuple[str, ...] | None:
    """Return the paths a word stands for; None for a pattern that matches too many to tell."""
    return scene.facts.matches.get(candidate.path) if candidate.is_glob else (candidate.path,)


def _open_pattern(words: tuple[Word, ...], scene: Scene) -> Objection | None:
    """Say why a pattern may be more to a program that does more than read than names of plain files."""
    for word in words:
        if word == literal("--"):
            return None
        if not word.parts or word.parts[0].kind is not PartKind.GLOB:
            continue
        for candidate in where(word, scene.folders, scene.ground) or ():
            found = _matched(candidate, scene)
            if found is None:
                return Objection("dynamic", "a pattern matches too many files to tell which", word.text)
            starts = tuple(f"{folder.rstrip('/')}/-" for folder in scene.folders or ())
            option = next((path for path in found if path.startswith(starts)), None)
            if option is not None:
                return Objection("dynamic", "a pattern matches a file that is named like an option", option)
    return None
