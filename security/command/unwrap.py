"""What does a command run in turn? Wrappers, shells, interpreters and options that start programs.

What can be told from the words becomes `inner` of the command; what cannot becomes a `Note`, and a
note means that only a person present may say yes. The table is `wrappers.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from .builtins import builtin_notes, poison_notes
from .git import git_notes, git_runs
from .nouns import Command, Node, Note, Part, PartKind, Unread, Word, literal
from .options import Parsed, parse_options
from .printing import print_line
from .scripts import awk_runs, sed_runs
from .searches import search_runs
from .tables import table

__all__ = ["Nest", "unwrapped"]

_DEEPEST = 8

_SHELLS = frozenset("sh bash dash zsh ksh mksh ash rbash posh yash".split())
_PLAIN_SHELLS = frozenset("sh dash ash posh zsh yash ksh mksh".split())
_NOT_POSIX = re.compile(
    r"\{[^}]*[,.]|\$['\"\[]|\[\[|<<|[<>]\(|\|&|&>|>&[^0-9-]|\bfunction\b|;&|\^|=\(|\*\*|~[a-z+-]"
)
_GIVEN = Part(PartKind.GIVEN, "given when it runs")
_VERSION = re.compile(r"(?<=[A-Za-z])[0-9.]+$")
_DYNAMIC = Note("dynamic", "which program runs is only known when it runs")


@dataclass(frozen=True, slots=True)
class Nest:
    """How deep a command lies in others, and how code is read there.

    `read` takes a line and the nest it stands in.
    """

    read: Callable[[str, Nest], Node]
    depth: int = 0

    def deeper(self) -> Nest:
        """Return the nest inside of this one.

        Raises:
            Unread: nobody wraps a command that often.
        """
        if self.depth >= _DEEPEST:
            raise Unread("commands run commands too often to follow")
        return Nest(self.read, self.depth + 1)

    def line(self, code: str) -> Node:
        """Return what code runs."""
        return self.read(code, self.deeper())

    def command(self, words: tuple[Word, ...]) -> Command:
        """Return what an argument vector runs."""
        return unwrapped(Command(words), self.deeper())


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A line of the table, with its defaults."""

    runs: str
    options: str = ""
    operands: int = 0
    code: tuple[str, ...] = ()
    assigns: bool = False
    given: bool = False
    unless: str = ""
    lenient: bool = False
    privilege: bool = False


def unwrapped(command: Command, nest: Nest) -> Command:
    """Return a command with what it runs and what cannot be told of it."""
    notes = poison_notes(command)
    if command.words:
        notes += builtin_notes(command) if _is_fixed(command.words[0]) else (_DYNAMIC,)
    if notes:
        command = replace(command, notes=(*command.notes, *notes))
    return _followed(command, nest) if command.words and _is_fixed(command.words[0]) else command


def _followed(command: Command, nest: Nest) -> Command:
    program = command.program
    if program in {
        "git",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "sed",
        "gsed",
        "find",
        "gfind",
        "fd",
        "fdfind",
        "trap",
    }:
        return _special(program, command, nest)
    found = _wrapper(program, command.words)
    if found is None:
        return command
    if found.privilege:
        note = Note("privilege", f"{program} changes who runs it or what it may reach")
        command = replace(command, notes=(*command.notes, note))
    return _RUNS[found.runs](command, found, nest)


def _is_fixed(word: Word) -> bool:
    """Whether a program's name is known: a literal, or one below somebody's home."""
    return word.is_literal or (
        len(word.parts) == 2
        and word.parts[0].kind is PartKind.TILDE
        and word.parts[1].kind is PartKind.LITERAL
    )


@lru_cache(maxsize=1)
def _wrappers() -> dict[str, _Wrapper]:
    found = {}
    for group in table("wrappers.toml").values():
        for name, line in group.items():
            fields: dict[str, Any] = dict(line)
            fields["code"] = tuple(fields.get("code", "").split())
            found[name] = _Wrapper(**fields)
    return found


def _wrapper(program: str, words: tuple[Word, ...]) -> _Wrapper | None:
    wrappers = _wrappers()
    if program in _SHELLS:
        return wrappers["sh"]
    if len(words) > 1 and (found := wrappers.get(f"{program} {words[1].text}")):
        # The sub-command stands where an operand would; it is skipped like one.
        return replace(found, operands=found.operands + 1)
    return wrappers.get(program) or wrappers.get(_VERSION.sub("", program))


def _noted(command: Command, rule: str, reason: str, *inner: Node) -> Command:
    notes = (*command.notes, Note(rule, reason))
    return replace(command, notes=notes, inner=(*command.inner, *inner))


def _run_command(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """The operands are an argument vector."""
    parsed = _parsed(command.words, found)
    if found.unless and any(parsed.has(name) for name in found.unless.split()):
        return command
    for _, value, kind in parsed.options:
        if kind == "line":
            command = _run_code(command, value, nest)
    words = parsed.operands[found.operands :]
    if found.assigns:
        while words and "=" in words[0].text:
            command = replace(
                command, notes=(*command.notes, *poison_notes(Command((), (), ()), words[0].text))
            )
            words = words[1:]
    if parsed.unknown is not None and not found.lenient:
        command = _noted(command, "wrapper", f"an option of {command.program} is not known, nor what it runs")
    if found.given:
        words = _with_given(words or (literal("echo"),), parsed)
    if not words:
        return command
    if words[0].text == "-exec" or words[0].text.startswith("-"):
        return _noted(command, "wrapper", f"it cannot be told what {command.program} runs")
    return replace(command, inner=(*command.inner, nest.command(words)))


def _with_given(words: tuple[Word, ...], parsed: Parsed) -> tuple[Word, ...]:
    """Put what is given when it runs where it will stand: behind the words, or wherever a mark says."""
    given = Word("⟨given when it runs⟩", (_GIVEN,))
    replacing = [value for name, value, _ in parsed.options if name in {"-I", "-i", "--replace"}]
    if not replacing:
        return (*words, given)
    mark = replacing[-1].text if replacing[-1] is not None else "{}"
    return tuple(given if mark in word.text else word for word in words)


def _parsed(words: tuple[Word, ...], found: _Wrapper) -> Parsed:
    if found.operands and found.lenient and len(words) > 1 and not words[1].text.startswith("-"):
        # The sub-command of a runner stands in front of the runner's own options.
        parsed = parse_options(words[2:], found.options, stops=True)
        return replace(parsed, operands=(words[1], *parsed.operands))
    if found.lenient and parse_options(words[1:], found.options, stops=True).unknown is not None:
        kept = [word for word in words[1:] if not word.text.startswith("-")]
        return Parsed((), tuple(kept))
    return parse_options(words[1:], found.options, stops=True)


def _run_line(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """The operands, joined by blanks, are shell code."""
    parsed = _parsed(command.words, found)
    words = parsed.operands[found.operands :]
    if parsed.unknown is not None and not found.lenient:
        command = _noted(command, "wrapper", f"an option of {command.program} is not known, nor what it runs")
    if found.given:
        return _noted(command, "code", f"{command.program} puts into code what it is given when it runs")
    if not words:
        return command
    if len(words) == 1:
        return _run_code(command, words[0], nest)
    if not all(word.is_literal for word in words):
        return _noted(command, "code", f"the code given to {command.program} is only known when it runs")
    joined = literal(" ".join(word.text for word in words))
    kept = command.words[: len(command.words) - len(words)]
    return _run_code(replace(command, words=(*kept, joined)), joined, nest)


def _run_shell(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """A shell: code behind `-c`, else a script, else whatever comes in."""
    words = command.words[1:]
    if len(words) == 1 and words[0].text in {"--version", "--help"}:
        return command
    parsed = parse_options(
        tuple(word for word in words if not word.text.startswith("+")), found.options, stops=True
    )
    if parsed.unknown is not None:
        return _noted(command, "code", f"an option of {command.program} is not known, nor what it runs")
    if parsed.has("-c"):
        return _run_code(command, parsed.operands[0] if parsed.operands else None, nest)
    if not parsed.operands or parsed.has("-s") or _is_stream(parsed.operands[0]):
        return _noted(command, "code", f"{command.program} runs whatever is sent to it")
    return command


def _is_stream(word: Word) -> bool:
    """Whether a script is nothing that lies on a disk."""
    return word.text in {"-", "/dev/stdin", "/proc/self/fd/0"} or any(part.body for part in word.parts)


def _run_script(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """An interpreter of another language: code in an option is not read, nor is what comes in."""
    del nest
    script: Word | None = None
    for word in command.words[1:]:
        if _is_code(word.text, found.code):
            return _noted(command, "code", f"the code given to {command.program} is not read")
        if not word.text.startswith("-") or word.text == "-":
            script = word
            break
    asks = any(word.text in {"-V", "-v", "--version", "--help", "-h"} for word in command.words[1:2])
    runs_module = any(word.text.startswith("-m") for word in command.words[1:])
    if (script is None and not asks and not runs_module) or (script is not None and _is_stream(script)):
        return _noted(command, "code", f"{command.program} runs whatever is sent to it")
    return command


def _run_later(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """Code that is put aside and runs without anybody looking."""
    del nest
    if any(word.text == found.unless for word in command.words[1:]):
        return command
    return _noted(command, "code", f"{command.program} runs code later, when nobody looks")


def _run_none(command: Command, found: _Wrapper, nest: Nest) -> Command:
    """Nothing but the options listed can start a program."""
    if any(_is_code(word.text, found.code) for word in command.words[1:]):
        command = _noted(command, "code", f"an option of {command.program} starts a program or runs code")
    for _, value, kind in parse_options(command.words[1:], found.options).options if found.options else ():
        if kind == "line":
            command = _run_code(command, value, nest)
    return command


def _is_code(text: str, options: tuple[str, ...]) -> bool:
    for option in options:
        if text == option or text.startswith(f"{option}="):
            return True
        if option.startswith("--"):
            # A long option may be cut short as long as it is unique.
            if len(text) > 3 and option.startswith(text.partition("=")[0]):
                return True
        elif len(option) == 2 and option[0] == "-":
            if text.startswith("-") and not text.startswith("--") and option[1] in text:
                return True
        elif option in {"+", "/c", "/C", "/k"} and text.startswith(option):
            return True
    return False


def _run_code(command: Command, code: Word | None, nest: Nest) -> Command:
    """Read a word as shell code; what runs is its print, so the word becomes that."""
    if code is None:
        return _noted(command, "code", f"{command.program} is given no code")
    if not code.is_literal:
        return _noted(command, "code", f"the code given to {command.program} is only known when it runs")
    try:
        node = nest.line(code.text)
        canonical = literal(print_line(node))
    except Unread as error:
        return _noted(command, "code", f"the code given to {command.program} cannot be read: {error}")
    if command.program in _PLAIN_SHELLS and _NOT_POSIX.search(code.text):
        return _noted(command, "code", f"{command.program} may read the code in another way than bash", node)
    words = tuple(canonical if word is code else word for word in command.words)
    return replace(command, words=words, inner=(*command.inner, node))


def _special(program: str, command: Command, nest: Nest) -> Command:
    """Programs whose own language says what they run."""
    if program == "trap":
        operands = parse_options(command.words[1:], "-l -p").operands
        if len(operands) < 2 or operands[0].text in {"", "-"}:
            return command
        return _run_code(command, operands[0], nest)
    if program == "git":
        command = replace(command, notes=(*command.notes, *git_notes(command.words)))
        for code in git_runs(command.words):
            command = _run_code(command, code, nest)
        return command
    if program.endswith(("awk", "sed")):
        reason = (awk_runs if program.endswith("awk") else sed_runs)(command.words)
        return _noted(command, "code", reason) if reason else command
    runs, reason = search_runs(command.words)
    inner = tuple(nest.command(words) for words in runs)
    command = replace(command, inner=(*command.inner, *inner))
    return _noted(command, "wrapper", reason) if reason else command


_RUNS: dict[str, Callable[[Command, _Wrapper, Nest], Command]] = {
    "command": _run_command,
    "line": _run_line,
    "shell": _run_shell,
    "script": _run_script,
    "later": _run_later,
    "none": _run_none,
}
