"""Tell whether a command only reads what may be read, so that nobody need be asked.

A command only reads when its program is in the table, was found outside of the workspace, every option
is known, and every path it reads passes. Everything else is an `Objection`, which says why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...paths import is_inside, writable
from ..expand import Bound, Candidate, Placed, added_by_wrapper, is_sink, is_transparent, where
from ..programs import (
    AWK_OPTIONS,
    CHECKS,
    SED_OPTIONS,
    Parsed,
    parse_options,
    passes_over_hidden,
    plain_form,
    shown_by,
    table,
)
from ..syntax import (
    BUILTINS,
    Assignment,
    Command,
    PartKind,
    Redirection,
    Word,
    is_harmless,
    is_separator,
    is_shells_own,
    literal,
    with_ending,
)
from .paths import Below, Objection, Scene, content_problem, names_problem
from .secret_search import sought_problem

__all__ = ["ReadOnlyProgram", "below_of", "is_pinned", "program_of", "versions", "why_not_readonly"]


_SIMPLE = re.compile(r"[A-Za-z0-9_.*?-]+")


@dataclass(frozen=True, slots=True)
class ReadOnlyProgram:
    """A line of the table."""

    options: str
    operands: str
    recursive: tuple[str, ...] = ()
    default: str = ""
    check: str = ""
    instead: tuple[str, ...] = ()
    quoted: bool = False
    ordered: bool = False
    follows: bool = False
    names: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    signs: str = ""
    members: bool = False


@lru_cache(maxsize=1)
def _programs() -> dict[str, ReadOnlyProgram]:
    found: dict[str, ReadOnlyProgram] = {}
    for group, lines in table("programs.toml").items():
        if group == "version":
            continue
        for name, line in lines.items():
            fields: dict[str, Any] = dict(line)
            for key in ("recursive", "instead", "names", "endings"):
                fields[key] = tuple(fields.get(key, "").split())
            found[name] = ReadOnlyProgram(**fields)
    return found


@lru_cache(maxsize=1)
def versions() -> dict[str, frozenset[str]]:
    """Return the options with which a program only tells its version, by program."""
    found: dict[str, set[str]] = {}
    for options, names in table("programs.toml")["version"].items():
        for name in names.split():
            found.setdefault(name, set()).update(options.split())
    return {name: frozenset(options) for name, options in found.items()}


def program_of(name: str) -> ReadOnlyProgram | None:
    """Return what the table says of a program."""
    return _programs().get(name)


def below_of(name: str, parsed: Parsed, found: ReadOnlyProgram) -> Below:
    """Return what a program that goes through folders opens there."""
    given = [value.text for option, value, _ in parsed.options if option in found.names and value is not None]
    names = tuple(text for text in given if not text.startswith("!"))
    # A pattern of names that is given brings hidden ones back.
    passes = name == "rg" and passes_over_hidden(parsed) and not names
    return Below(found.follows, not passes, names if all(map(_SIMPLE.fullmatch, names)) else ())


_SYSTEM_FOLDERS = frozenset("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin".split())
_PLAIN_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*|[A-Z][A-Z0-9_]*")

_ONE_OPTION = 2
# To these a word that begins with a dash, and is no option of theirs, is a text.
_ANY_WORDS = frozenset({"echo", "true", "false", ":"})

# What may be given names by `xargs`: they read no option that opens a file.
_TAKES_ANY = frozenset("echo basename dirname ls stat".split())


def why_not_readonly(one: Bound, scene: Scene) -> Objection | None:
    """Say why a command may not run without a question, or None."""
    at = one.at
    around = next(_around(at.command, scene), None)
    if any(context.startswith("function ") for context in at.context):
        around = Objection("function", "the line defines a function")
    if one.each is None:
        return around or Objection("unknown", "a loop gives a command too many values to tell what it does")
    problems = filter(None, (_command_problem(each, at, scene) for each in one.each))
    # What is refused stays so, whatever is set or written besides.
    return next((found for found in problems if around is None or found.rule == "secret"), around)


def _command_problem(at: Placed, written: Placed, scene: Scene) -> Objection | None:
    """Say why a command does more than read as it is for one value of a loop."""
    command = at.command
    if command.notes:
        return Objection(command.notes[0].rule, command.notes[0].reason)
    if len(command.inner) != len(written.command.inner):
        return Objection("dynamic", "what a loop goes through decides what runs", command.name)
    if at is not written and command.program == "git":
        # It is printed as it is written, and so not neutralised.
        return Objection("unlisted", "a loop brings words to git", command.name)
    return _words_problem(command.words, at, scene) if command.words else None


def _around(command: Command, scene: Scene) -> Iterator[Objection]:
    for assignment in command.assignments:
        if not _is_quiet_assignment(assignment, command):
            yield Objection("assigns", "a variable is set that a program could obey", str(assignment))
    for redirection in command.redirections:
        problem = _redirection_problem(redirection, scene)
        if problem is not None:
            yield problem


def _is_quiet_assignment(assignment: Assignment, command: Command) -> bool:
    """Variables of the line itself may have any plain name; those handed to a program must be harmless."""
    if is_harmless(assignment) or is_separator(assignment, command):
        return True
    is_plain = _PLAIN_VARIABLE.fullmatch(assignment.name) is not None
    return is_plain and not command.words and not is_shells_own(assignment.name)


def _redirection_problem(redirection: Redirection, scene: Scene) -> Objection | None:
    if is_sink(redirection) or redirection.operator == "<<<":
        return None
    if redirection.writes:
        return Objection("writes", "it writes a file", redirection.target.text)
    if redirection.reads:
        return content_problem(redirection.target, scene)
    return Objection("unknown", "it cannot be told what a redirection does")


def _words_problem(words: tuple[Word, ...], at: Placed, scene: Scene) -> Objection | None:
    name = words[0].text
    program = name.rpartition("/")[2]
    problem = _place_problem(name, scene)
    if problem is not None:
        return problem
    if program == "git":
        return _git_problem(words, at, scene)
    if len(words) == _ONE_OPTION and _only_tells(program, words[1].text):
        return None
    if at.command.inner and is_transparent(program, words):
        added = added_by_wrapper(program, words)
        if added is not None:
            return Objection("wrapper", "an option of a wrapper does more than run a program", added.text)
        return None
    found = program_of(program)
    if found is None:
        return Objection("unlisted", "a program is not known to only read", name)
    return _use_problem(words, found, scene)


def _only_tells(program: str, option: str) -> bool:
    """Whether a program that is given one option prints its version or how it is used."""
    return option in versions().get(program, ()) or (option == "--help" and program_of(program) is not None)


def _place_problem(name: str, scene: Scene) -> Objection | None:
    """A program must be the shell's own, or one of the system's."""
    if name in BUILTINS:
        return None
    folder, slash, program = name.rpartition("/")
    if slash:
        if folder not in _SYSTEM_FOLDERS or program in BUILTINS:
            return Objection("program", "a program is called by a path that is not the system's", name)
        return None
    path = scene.facts.programs.get(name)
    if path is None:
        return Objection("program", "a program was not found among those of the system", name)
    if is_inside(path, *writable(scene.policy)):
        return Objection("program", "a program lies in the workspace", path)
    return None


def _git_problem(words: tuple[Word, ...], at: Placed, scene: Scene) -> Objection | None:
    """Say why a git command is asked about: all but its plain forms, in a plain repository, are."""
    form = plain_form(words)
    if form is None:
        shown = (content_problem(word, scene) for word in shown_by(words))
        # What is refused stays so; all else is one question.
        secret = next((found for found in shown if found is not None and found.rule == "secret"), None)
        return secret or Objection("unlisted", "git is not known to only read when used like this")
    if form == "--version":
        return None
    if _is_started(at):
        return Objection("unlisted", "git is started by another program of the line", words[0].text)
    return None if form == "rev-parse" else _repository_problem(scene)


def is_pinned(at: Placed, scene: Scene) -> bool:
    """Whether git runs in the workspace's root and is held to the repository there, a plain one."""
    return not _is_started(at) and _repository_problem(scene) is None


def _is_started(at: Placed) -> bool:
    """Whether another program starts it, which may move it or put other words in place of those printed."""
    return any(context.startswith("run by ") for context in at.context)


def _repository_problem(scene: Scene) -> Objection | None:
    workspace = scene.policy.workspace
    if scene.folders != frozenset({workspace}):
        return Objection("repository", "git is not known to run in the root of the workspace")
    doubts = scene.facts.repositories.get(workspace)
    if doubts is None:
        return Objection("unknown", "a repository was not looked at", workspace)
    if doubts:
        why = "the repository may make git run something or read elsewhere"
        return Objection("repository", why, ", ".join(doubts))
    return None


def _use_problem(words: tuple[Word, ...], found: ReadOnlyProgram, scene: Scene) -> Objection | None:
    """Check options, condition and operands of a program of the table."""
    glued = [word for word in words if _is_pattern_of_options(word)]
    if glued:
        # Where no file is named like it, the shell leaves it as it is.
        words = tuple(
            literal("".join(part.text for part in word.parts)) if word in glued else word for word in words
        )
    own_language = found.check in {"looks", "pure_awk", "pure_sed", "compares"}
    parsed = _parsed(words, found, own_language=own_language)
    if parsed.unknown is not None and not own_language and words[0].text not in _ANY_WORDS:
        return Objection("option", "an option is not known to only read", parsed.unknown.text)
    if found.check and not CHECKS[found.check](words, parsed):
        return Objection("unlisted", "a program is not known to only read when used like this", words[0].text)
    for _, value, kind in parsed.options:
        problem = _value_problem(value, kind, scene)
        if problem is not None:
            return problem
    problem = _operands_problem(words[0].text.rpartition("/")[2], parsed, found, scene)
    problem = problem or sought_problem(words, parsed, scene) or _signs_problem(parsed, found, scene)
    problem = problem or _behind_operand_problem(words, parsed, found, scene)
    # All are looked at, so that a survey asks for all.
    return problem or next(filter(None, [_glued_problem(word, scene) for word in glued]), None)


def _signs_problem(parsed: Parsed, found: ReadOnlyProgram, scene: Scene) -> Objection | None:
    """Say why a program that reads names in a way of its own may open another file, or None."""
    if not found.signs:
        return None
    operands = parsed.operands if found.operands.endswith("content") else ()
    values = [value for _, value, kind in parsed.options if kind == "content" and value is not None]
    why = "the program may find another file by this name"
    for word in (*values, *operands[: 1 if found.members else None]):
        texts: tuple[str, ...] | None = (word.text,)
        if any(part.kind is PartKind.GLOB for part in word.parts):
            several = [
                scene.facts.matches.get(one.path) for one in where(word, scene.folders, scene.ground) or ()
            ]
            # A pattern that matches nothing is handed on as it is.
            texts = tuple(path for paths in several for path in paths or ()) if all(several) else None
        if texts is None or any(sign in text for text in texts for sign in found.signs):
            return Objection("unknown", why, word.text)
    return None


def _behind_operand_problem(
    words: tuple[Word, ...], parsed: Parsed, found: ReadOnlyProgram, scene: Scene
) -> Objection | None:
    """Not every program takes options behind its first operand: to those the value of one is a file, too."""
    if not parsed.operands or not found.operands.endswith("content"):
        return None
    first = next((at for at, word in enumerate(words) if word is parsed.operands[0]), len(words))
    values = [value for _, value, _ in parsed.options if value is not None]
    for word in words[first + 1 :]:
        if any(word is value for value in values) and content_problem(word, scene) is not None:
            return Objection("unknown", "the value of an option could be taken for a file", word.text)
    return None


def _glued_problem(word: Word, scene: Scene) -> Objection | None:
    """Say why a pattern glued to an option may be more than it seems: files could be named like options."""
    for candidate in where(word, scene.folders, scene.ground) or (Candidate(""),):
        if scene.facts.matches.get(candidate.path) != ():
            return Objection("unknown", "a pattern matches a file that is named like an option", word.text)
    return None


def _is_pattern_of_options(word: Word) -> bool:
    """Whether a pattern is glued to an option: it matches names of files that begin like the option."""
    begins = word.parts and word.parts[0].kind is PartKind.LITERAL and word.parts[0].text.startswith("-")
    return bool(begins) and any(part.kind is PartKind.GLOB for part in word.parts)


def _parsed(words: tuple[Word, ...], found: ReadOnlyProgram, *, own_language: bool) -> Parsed:
    if not own_language:
        if words[0].text == "tar" and len(words) > 1 and re.fullmatch(r"[tvzjJ]+f?", words[1].text):
            words = (words[0], literal(f"-{words[1].text}"), *words[2:])
        return parse_options(words[1:], found.options, stops=found.ordered)
    if found.check == "looks":
        starts = [word for word in _until_expression(words[1:]) if not word.text.startswith("-")]
        return Parsed((), tuple(starts))
    if found.check == "compares":
        return Parsed((), words[1:])
    return parse_options(words[1:], _OWN_OPTIONS[found.check], stops=found.ordered)


_ONLY_ONE = frozenset({"at_most_one", "dumps_one"})
_OWN_OPTIONS = {"pure_awk": AWK_OPTIONS, "pure_sed": SED_OPTIONS}


def _until_expression(words: tuple[Word, ...]) -> Iterator[Word]:
    for word in words:
        if word.is_literal and (
            word.text in {"!", "(", ")", ","} or re.fullmatch(r"-[a-zNn][a-zA-Z0-9]+", word.text)
        ):
            return
        yield word


def _value_problem(value: Word | None, kind: str, scene: Scene) -> Objection | None:
    if value is None:
        return None
    if kind == "content":
        return content_problem(value, scene)
    if kind == "names":
        return names_problem(value, scene)
    return (
        None
        if value.is_literal
        else Objection("unknown", "the value of an option is only known when it runs", value.text)
    )


def _operands_problem(name: str, parsed: Parsed, found: ReadOnlyProgram, scene: Scene) -> Objection | None:
    kinds = found.operands.split()
    operands = list(parsed.operands)
    if kinds[0] == "pattern":
        given = (found.instead and parsed.has(*found.instead)) or parsed.has("-e", "--expression")
        problem = _text_problem(operands.pop(0), found) if operands and not given else None
        if problem is not None:
            return problem
    if kinds[-1] == "none":
        return (
            Objection("operand", "an operand would change something", operands[0].text) if operands else None
        )
    recursive = found.recursive == ("always",) or parsed.has(*found.recursive)
    if not operands and found.default and recursive:
        operands.append(literal(found.default))
    if found.check in _ONLY_ONE and any(
        part.kind is PartKind.GLOB for word in operands for part in word.parts
    ):
        return Objection("operand", "a pattern could match a second file, which would be written", name)
    below = below_of(name, parsed, found) if recursive else None
    for word in operands:
        problem = _operand_problem(name, word, found, scene, below)
        if problem is not None:
            return problem
    return None


def _operand_problem(
    name: str, word: Word, found: ReadOnlyProgram, scene: Scene, below: Below | None
) -> Objection | None:
    kind = found.operands.split()[-1]
    if word.parts and word.parts[0].kind is PartKind.GIVEN:
        if name in _TAKES_ANY:
            return None
        return Objection("unknown", "what is given when it runs could be anything", word.text)
    if kind == "content":
        read = (word, *(with_ending(word, ending) for ending in found.endings))
        return next(filter(None, [content_problem(one, scene, below) for one in read]), None)
    if kind == "names":
        return names_problem(word, scene)
    if any(part.kind is PartKind.GLOB for part in word.parts) and (found.quoted or found.check == "compares"):
        # The shell prints or compares the names that a pattern matches.
        return names_problem(word, scene)
    return _text_problem(word, found)


def _text_problem(word: Word, found: ReadOnlyProgram) -> Objection | None:
    """A text may be open where it is only printed or compared."""
    if word.is_literal or found.quoted or found.check == "compares":
        return None
    if all(part.kind in {PartKind.LITERAL, PartKind.GLOB} for part in word.parts):
        return Objection("unknown", "a pattern of file names stands where a text is expected", word.text)
    return Objection("unknown", "an operand is only known when it runs", word.text)
