"""Does a command only read what may be read? Then nobody is asked.

A command is quiet when its program is in the table, was found outside of the workspace, every option
is known, and every path it reads passes. Everything else is a `Problem`, which says why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..workspace import is_inside
from .actions import is_sink
from .builtins import BUILTINS, is_harmless
from .checks import CHECKS
from .git import git_form
from .nouns import Assignment, Command, PartKind, Redirection, Word, literal
from .options import Parsed, parse_options
from .paths import Problem, Scene, content_problem, names_problem
from .places import Placed, git_places, variants
from .scripts import AWK_OPTIONS, SED_OPTIONS
from .tables import table

__all__ = ["Program", "problem_of", "program_of"]

_SYSTEM_FOLDERS = frozenset("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin".split())
_PLAIN_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")

# Wrappers that add nothing of their own, so that a command is as quiet as what they run.
_TRANSPARENT = frozenset(
    "env command builtin nice timeout gtimeout stdbuf xargs time eval sh bash dash".split()
)

# What may be given names by `xargs`: they read no option that opens a file.
_TAKES_ANY = frozenset("echo basename dirname ls stat".split())


@dataclass(frozen=True, slots=True)
class Program:
    """A line of the table."""

    options: str
    operands: str
    recursive: tuple[str, ...] = ()
    default: str = ""
    check: str = ""
    instead: tuple[str, ...] = ()
    quoted: bool = False


@lru_cache(maxsize=1)
def _programs() -> dict[str, Program]:
    found: dict[str, Program] = {}
    for group, lines in table("programs.toml").items():
        if group == "version":
            continue
        for name, line in lines.items():
            fields: dict[str, Any] = dict(line)
            for key in ("recursive", "instead"):
                fields[key] = tuple(fields.get(key, "").split())
            found[name] = Program(**fields)
    return found


@lru_cache(maxsize=1)
def _versions() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for options, names in table("programs.toml")["version"].items():
        for name in names.split():
            found.setdefault(name, set()).update(options.split())
    return {name: frozenset(options) for name, options in found.items()}


def program_of(name: str) -> Program | None:
    """Return what the table says of a program."""
    return _programs().get(name)


def problem_of(at: Placed, scene: Scene) -> Problem | None:
    """Say why a command may not run without a question, or None."""
    command = at.command
    if any(context.startswith("function ") for context in at.context):
        return Problem("function", "the line defines a function")
    if command.notes:
        return Problem(command.notes[0].rule, command.notes[0].reason)
    around = next(_around(command, scene), None)
    if around is not None:
        return around
    if not command.words:
        return None
    every = variants(at)
    if every is None:
        return Problem("unknown", "a loop gives a command too many values to tell what it does")
    for words in every:
        problem = _words_problem(words, at, scene)
        if problem is not None:
            return problem
    return None


def _around(command: Command, scene: Scene) -> Iterator[Problem]:
    for assignment in command.assignments:
        if not _is_quiet_assignment(assignment, command):
            yield Problem("assigns", "a variable is set that a program could obey", str(assignment))
    for redirection in command.redirections:
        problem = _redirection_problem(redirection, scene)
        if problem is not None:
            yield problem


def _is_quiet_assignment(assignment: Assignment, command: Command) -> bool:
    """Variables of the line itself may have any plain name; those handed to a program must be harmless."""
    if is_harmless(assignment):
        return True
    return not command.words and _PLAIN_VARIABLE.fullmatch(assignment.name) is not None


def _redirection_problem(redirection: Redirection, scene: Scene) -> Problem | None:
    if is_sink(redirection) or redirection.operator == "<<<":
        return None
    if redirection.writes:
        return Problem("writes", "it writes a file", redirection.target.text)
    if redirection.reads:
        return content_problem(redirection.target, scene)
    return Problem("unknown", "it cannot be told what a redirection does")


def _words_problem(words: tuple[Word, ...], at: Placed, scene: Scene) -> Problem | None:
    name = words[0].text
    program = name.rpartition("/")[2]
    problem = _place_problem(name, scene)
    if problem is not None:
        return problem
    if program == "git":
        return _git_problem(words, at, scene)
    if len(words) == 2 and words[1].text in _versions().get(program, ()):
        return None
    if program in _TRANSPARENT and at.command.inner:
        return _wrapper_problem(words)
    found = program_of(program)
    if found is None:
        return Problem("unlisted", "a program is not known to only read", name)
    return _use_problem(words, found, scene)


def _place_problem(name: str, scene: Scene) -> Problem | None:
    """A program must be the shell's own, or one of the system's."""
    if name in BUILTINS:
        return None
    folder, slash, program = name.rpartition("/")
    if slash:
        if folder not in _SYSTEM_FOLDERS or program in BUILTINS:
            return Problem("program", "a program is called by a path that is not the system's", name)
        return None
    path = scene.facts.programs.get(name)
    if path is None:
        return Problem("program", "a program was not found", name)
    if is_inside(path, scene.policy.workspace):
        return Problem("program", "a program lies in the workspace", path)
    return None


def _wrapper_problem(words: tuple[Word, ...]) -> Problem | None:
    """What is run is judged on its own; the wrapper must not write, move or wait for more."""
    for word in words[1:]:
        if not word.text.startswith(("-", "+")):
            break
        if word.text.startswith(
            ("-o", "--output", "-C", "--chdir", "-S", "--split", "-a", "--arg-file", "-O", "+")
        ):
            return Problem("wrapper", "an option of a wrapper does more than run a program", word.text)
    if words[0].text.endswith("env") and any("=" in word.text for word in words[1:]):
        for word in words[1:]:
            name, mark, value = word.text.partition("=")
            if not mark:
                break
            if not word.text.startswith("-") and not is_harmless(Assignment(name, literal(value))):
                return Problem("assigns", "a variable is set that a program could obey", word.text)
    return None


def _git_problem(words: tuple[Word, ...], at: Placed, scene: Scene) -> Problem | None:
    form = git_form(words)
    if form is None:
        return Problem("unlisted", "git is not known to only read when used like this")
    if form[0] in {"--version", "version"}:
        return None
    folders = git_places(at, scene.ground)
    if folders is None:
        return Problem("unknown", "it cannot be told which repository is meant")
    for folder in folders:
        problem = _repository_problem(folder, scene)
        if problem is not None:
            return problem
    here = scene.at(folders)
    for word in form[1].operands:
        # A name of a revision is a harmless path inside; `revision:path` shows what lies at the path.
        shown = [word, *([literal(word.text.rpartition(":")[2])] if ":" in word.text[1:] else [])]
        for one in filter(lambda one: one.text, shown):
            problem = content_problem(one, here)
            if problem is not None:
                return problem
    return None


def _repository_problem(folder: str, scene: Scene) -> Problem | None:
    real = scene.facts.real.get(folder)
    if real is None or not is_inside(real, scene.policy.workspace, *scene.policy.allowed_paths):
        return Problem("outside", "a repository lies outside of the workspace", folder)
    settings = scene.facts.repositories.get(folder)
    if settings is None:
        return Problem("unknown", "a repository was not looked at", folder)
    if settings:
        return Problem("repository", "the repository has settings that start programs", ", ".join(settings))
    return None


def _use_problem(words: tuple[Word, ...], found: Program, scene: Scene) -> Problem | None:
    """Check options, condition and operands of a program of the table."""
    own_language = found.check in {"looks", "pure_awk", "pure_sed", "compares"}
    parsed = _parsed(words, found, own_language=own_language)
    if parsed.unknown is not None and not own_language:
        return Problem("option", "an option is not known to only read", parsed.unknown.text)
    if found.check and not CHECKS[found.check](words, parsed):
        return Problem("unlisted", "a program is not known to only read when used like this", words[0].text)
    for _, value, kind in parsed.options:
        problem = _value_problem(value, kind, scene)
        if problem is not None:
            return problem
    return _operands_problem(words[0].text.rpartition("/")[2], parsed, found, scene)


def _parsed(words: tuple[Word, ...], found: Program, *, own_language: bool) -> Parsed:
    if not own_language:
        if words[0].text == "tar" and len(words) > 1 and re.fullmatch(r"[tvzjJ]+f?", words[1].text):
            words = (words[0], literal(f"-{words[1].text}"), *words[2:])
        return parse_options(words[1:], found.options)
    if found.check == "looks":
        starts = [word for word in _until_expression(words[1:]) if not word.text.startswith("-")]
        return Parsed((), tuple(starts))
    if found.check == "compares":
        return Parsed((), words[1:])
    return parse_options(words[1:], _OWN_OPTIONS[found.check])


_OWN_OPTIONS = {"pure_awk": AWK_OPTIONS, "pure_sed": SED_OPTIONS}


def _until_expression(words: tuple[Word, ...]) -> Iterator[Word]:
    for word in words:
        if word.is_literal and (
            word.text in {"!", "(", ")", ","} or re.fullmatch(r"-[a-zNn][a-zA-Z0-9]+", word.text)
        ):
            return
        yield word


def _value_problem(value: Word | None, kind: str, scene: Scene) -> Problem | None:
    if value is None:
        return None
    if kind == "content":
        return content_problem(value, scene)
    if kind == "names":
        return names_problem(value, scene)
    return (
        None
        if value.is_literal
        else Problem("unknown", "the value of an option is only known when it runs", value.text)
    )


def _operands_problem(name: str, parsed: Parsed, found: Program, scene: Scene) -> Problem | None:
    kinds = found.operands.split()
    operands = list(parsed.operands)
    if kinds[0] == "pattern":
        given = (found.instead and parsed.has(*found.instead)) or parsed.has("-e", "--expression")
        problem = _text_problem(operands.pop(0), found) if operands and not given else None
        if problem is not None:
            return problem
    if kinds[-1] == "none":
        return Problem("operand", "an operand would change something", operands[0].text) if operands else None
    recursive = found.recursive == ("always",) or parsed.has(*found.recursive)
    if not operands and found.default and recursive:
        operands.append(literal(found.default))
    for word in operands:
        problem = _operand_problem(name, word, kinds[-1], found, scene, recursive=recursive)
        if problem is not None:
            return problem
    return None


def _operand_problem(
    name: str, word: Word, kind: str, found: Program, scene: Scene, *, recursive: bool
) -> Problem | None:
    if word.parts and word.parts[0].kind is PartKind.GIVEN:
        if name in _TAKES_ANY:
            return None
        return Problem("unknown", "what is given when it runs could be anything", word.text)
    if kind == "content":
        return content_problem(word, scene, recursive=recursive)
    if kind == "names":
        return names_problem(word, scene)
    if any(part.kind is PartKind.GLOB for part in word.parts) and (found.quoted or found.check == "compares"):
        # The shell prints or compares the names that a pattern matches.
        return names_problem(word, scene)
    return _text_problem(word, found)


def _text_problem(word: Word, found: Program) -> Problem | None:
    """A text may be open where it is only printed or compared."""
    if word.is_literal or found.quoted or found.check == "compares":
        return None
    if all(part.kind in {PartKind.LITERAL, PartKind.GLOB} for part in word.parts):
        return Problem("unknown", "a pattern of file names stands where a text is expected", word.text)
    return Problem("unknown", "an operand is only known when it runs", word.text)
