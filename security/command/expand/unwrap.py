"""Find what a command runs in turn: wrappers, shells, interpreters, and options that start programs.

What the words tell becomes `inner` of the command; what they do not becomes a `Note`, and a note means that
only a person present may say yes. The table is `wrappers.toml`. Text sent to a shell by a here-string or a
pipe, and containers given the machine they run on, are found here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field, replace
from itertools import pairwise

from ...lazy import dataclass, regex
from ..programs import (
    Parsed,
    comes_in,
    git_notes,
    git_runs,
    is_code,
    is_stream,
    is_verb_open,
    may_be_options,
    parse_options,
    search_runs,
)
from ..syntax import (
    Command,
    Effort,
    Node,
    Note,
    Part,
    PartKind,
    Redirection,
    Unread,
    Word,
    builtin_notes,
    literal,
    poison_notes,
)
from .printing import print_line
from .wrappers import Wrapper, behind_a_value, has_verbs, parsed_of, split_string, wrapper_of

__all__ = ["Nest", "host_reason", "sent", "unwrapped"]


_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
_STARTS = frozenset({"run", "create", "exec"})
_POWERFUL = regex(
    r"--privileged(?:=true)?|--cap-add(?:=.*)?|--device(?:=.*)?|--(?:pid|ipc|uts|userns|net|network)=host"
    r"|--security-opt(?:=.*)?"
)
_SPACES = frozenset({"--pid", "--ipc", "--uts", "--userns"})
_SOURCE = regex(
    r"(?:-v|--volume=?|--mount=?(?:.*,)?(?:source|src)=)?(?P<path>/[^:,]*|~[^:,]*|⟨~⟩[^:,]*)(?:[:,].*)?"
)
_OF_THE_HOST = regex(
    r"/|/(?:etc|root|home|usr|var|bin|boot|dev|lib|proc|sys|run)(?:/.*)?|/home/[^/]+/?|~/?|⟨~⟩/?|.*\.sock"
)


def host_reason(words: tuple[Word, ...]) -> str | None:
    """Say by what a container gets hold of the machine, or None."""
    texts = [word.text for word in words]
    if texts[0].rpartition("/")[2] not in _RUNTIMES or not _STARTS & set(texts[1:]):
        return None
    for before, text in pairwise(texts):
        if _POWERFUL.fullmatch(text) or (before in _SPACES and text == "host"):
            return f"a container is given power over the machine ({text})"
        is_mount = before in {"-v", "--volume", "--mount"} or text.startswith(
            ("-v/", "--volume=", "--mount=")
        )
        found = _SOURCE.search(text) if is_mount else None
        if found is not None and _OF_THE_HOST.fullmatch(found["path"]):
            return f"a container is given a folder of the machine ({found['path']})"
    return None


_DEEPEST = 8

_PLAIN_SHELLS = frozenset("sh dash ash posh zsh yash ksh mksh".split())
_NOT_POSIX = regex(
    r"\{[^}]*[,.]|\$['\"\[]|\[\[|<<|[<>]\(|\|&|&>|>&[^0-9-]|\bfunction\b|;&|\^|=\(|\*\*|~[a-z+-]"
)
_GIVEN = Part(PartKind.GIVEN, "given when it runs")
_DYNAMIC_VERB = "which of its commands runs is only known when it runs"
_RUNS_SENT = "runs whatever is sent to it"
_SPECIAL = frozenset("git find gfind fd fdfind trap".split())
_DYNAMIC = Note("dynamic", "which program runs is only known when it runs")


@dataclass(frozen=True, slots=True)
class Nest:
    """How deep a command lies in others, and how code is read there.

    `read` takes a line and the nest around it. `effort` is how many words all code inside of a
    line may have together: one word can be read more than once. `constructs` are those met in it. `sent`
    tells that something comes in there, by a pipe or from a file.
    """

    read: Callable[[str, Nest], Node]
    effort: Effort
    depth: int = 0
    constructs: set[str] = field(default_factory=set)
    sent: bool = False

    def deeper(self) -> Nest:
        """Return the nest inside of this one.

        Raises:
            Unread: nobody wraps a command that often.
        """
        if self.depth >= _DEEPEST:
            raise Unread("commands run commands too often to follow")
        return replace(self, depth=self.depth + 1)

    def line(self, code: str) -> Node:
        """Return what code runs."""
        return self.read(code, self.deeper())

    def command(self, words: tuple[Word, ...]) -> Command:
        """Return what an argument vector runs."""
        return unwrapped(Command(words), self.deeper())


def unwrapped(command: Command, nest: Nest) -> Command:
    """Return a command with what it runs and what is unknown about it."""
    notes = poison_notes(command)
    if command.words:
        notes += builtin_notes(command) if _is_fixed(command.words[0]) else (_DYNAMIC,)
    if notes:
        command = replace(command, notes=(*command.notes, *notes))
    return _followed(command, nest) if command.words and _is_fixed(command.words[0]) else command


def _followed(command: Command, nest: Nest) -> Command:
    program = command.program
    if program in _SPECIAL:
        return _special(program, command, nest)
    reason = host_reason(command.words)
    if reason is not None:
        command = _noted(command, "privilege", reason)
    if has_verbs(program) and is_verb_open(command.words):
        command = _noted(command, "dynamic", f"{program}: {_DYNAMIC_VERB}")
    found = wrapper_of(program, command.words)
    if found is None:
        return command
    if found.privilege:
        command = _noted(command, "privilege", f"{program} changes who runs it or what it may reach")
    command = _RUNS[found.runs](command, found, nest)
    return _noted(command, "code", f"{program} {_RUNS_SENT}") if found.fed and nest.sent else command


def _is_fixed(word: Word) -> bool:
    """Whether a program's name is known: a literal, or one below somebody's home."""
    return word.is_literal or (
        len(word.parts) == 2
        and word.parts[0].kind is PartKind.TILDE
        and word.parts[1].kind is PartKind.LITERAL
    )


def _noted(command: Command, rule: str, reason: str, *inner: Node) -> Command:
    notes = (*command.notes, Note(rule, reason))
    return replace(command, notes=notes, inner=(*command.inner, *inner))


def _run_command(command: Command, found: Wrapper, nest: Nest) -> Command:
    """The operands are an argument vector."""
    split = split_string(command.words) if command.program == "env" else None
    if split is not None:
        return _running(command, nest, split)
    command = _with_code(command, found) if found.code else command
    parsed = parsed_of(command.words, found)
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
        # What is sent to it are words to it, and nothing is left for what it runs.
        nest = replace(nest, sent=False)
        words = _with_given(words or (literal("echo"),), parsed)
    if not words:
        return _open_in_front(command, None)
    if len(words) > 1 and f"{words[0].text}:line" in found.options.split():
        return _run_code(command, words[1], nest)
    if words[0].text == "-exec" or words[0].text.startswith("-"):
        return _noted(command, "wrapper", f"it is unknown what {command.program} runs")
    command = _running(_open_in_front(command, words[0]), nest, words)
    other = behind_a_value(command.words, words[0]) if found.lenient and parsed.unknown is not None else ()
    return _running(command, nest, other) if other else command


def _running(command: Command, nest: Nest, *several: tuple[Word, ...]) -> Command:
    """Add what is run; code inside of it was read and is to run as its print, so its words are taken over."""
    inner = tuple(nest.command(words) for words in several)
    own = command.words
    for words, one in zip(several, inner, strict=True):
        own = _taken_over(own, words, one.words)
    return replace(command, words=own, inner=(*command.inner, *inner))


def _taken_over(
    own: tuple[Word, ...], words: tuple[Word, ...], printed: tuple[Word, ...]
) -> tuple[Word, ...]:
    """Return a wrapper's words with those of what it runs as they are printed."""
    if all(word is again for word, again in zip(words, printed, strict=False)) and len(words) == len(printed):
        return own
    if len(words) == len(printed):
        changed = {id(word): again for word, again in zip(words, printed, strict=True)}
        return tuple(changed.get(id(word), word) for word in own)
    # Words of code were joined, which is only done to all the words at the end.
    at = len(own) - len(words)
    return (*own[:at], *printed) if own[at:] == words else own


def _open_in_front(command: Command, first: Word | None) -> Command:
    """What the shell puts among a wrapper's own words may be an option more, or all that is run."""
    for word in command.words[1:]:
        if word is first:
            break
        if not word.is_literal:
            return _noted(command, "wrapper", f"what {command.program} runs is only known when it runs")
    return command


def _with_given(words: tuple[Word, ...], parsed: Parsed) -> tuple[Word, ...]:
    """Insert the words given at run time at their place: behind the words, or wherever a mark says."""
    given = Word("⟨given when it runs⟩", (_GIVEN,))
    replacing = [value for name, value, _ in parsed.options if name in {"-I", "-i", "--replace"}]
    if not replacing:
        return (*words, given)
    mark = replacing[-1].text if replacing[-1] is not None else "{}"
    return tuple(given if mark in word.text else word for word in words)


def _run_line(command: Command, found: Wrapper, nest: Nest) -> Command:
    """The operands, joined by blanks, are shell code."""
    parsed = parsed_of(command.words, found)
    words = parsed.operands[found.operands :]
    if parsed.unknown is not None and not found.lenient:
        command = _noted(command, "wrapper", f"an option of {command.program} is not known, nor what it runs")
    if found.given:
        return _noted(command, "code", f"{command.program} puts into code what it is given when it runs")
    if not words:
        return command
    if len(words) == 1:
        return _run_code(_open_in_front(command, words[0]), words[0], nest)
    if not all(word.is_literal for word in words):
        return _noted(command, "code", f"the code given to {command.program} is only known when it runs")
    joined = literal(" ".join(word.text for word in words))
    kept = command.words[: len(command.words) - len(words)]
    return _run_code(replace(command, words=(*kept, joined)), joined, nest)


def _run_shell(command: Command, found: Wrapper, nest: Nest) -> Command:
    """A shell: code behind `-c`, else a script, else whatever comes in."""
    words = command.words[1:]
    if len(words) == 1 and words[0].text in {"--version", "--help"}:
        return command
    parsed = parse_options(words, found.options, stops=True)
    starts = parsed.operands[0] if parsed.operands else None
    if parsed.unknown is not None or (starts is not None and starts.text.startswith("+")):
        return _noted(command, "code", f"an option of {command.program} is not known, nor what it runs")
    if parsed.has("-c"):
        code = parsed.operands[0] if parsed.operands else None
        return _run_code(_open_in_front(command, code) if code else command, code, nest)
    if starts is None or parsed.has("-s") or is_stream(starts):
        return _noted(command, "code", f"{command.program} {_RUNS_SENT}")
    if may_be_options(starts, parsed.operands[1:]):
        return _noted(command, "code", f"what {command.program} runs is only known when it runs")
    return command


def _run_script(command: Command, found: Wrapper, nest: Nest) -> Command:
    """An interpreter of another language: code in an option is not read, nor is what comes in."""
    del nest
    script: Word | None = None
    for word in command.words[1:]:
        if is_code(word.text, found.code):
            return _noted(command, "code", f"the code given to {command.program} is not read")
        if not word.text.startswith("-") or word.text == "-":
            script = word
            break
    asks = any(word.text in {"-V", "-v", "--version", "--help", "-h"} for word in command.words[1:2])
    runs_module = any(word.text.startswith("-m") for word in command.words[1:])
    if (script is None and not asks and not runs_module) or (script is not None and is_stream(script)):
        return _noted(command, "code", f"{command.program} {_RUNS_SENT}")
    at = next((at for at, word in enumerate(command.words) if word is script), 0)
    if script is not None and may_be_options(script, command.words[at + 1 :]):
        return _noted(command, "code", f"what {command.program} runs is only known when it runs")
    return command


def _run_program(command: Command, found: Wrapper, nest: Nest) -> Command:
    """What it is given is a program of its own language: only in a plain form it neither runs nor writes."""
    del nest
    parsed = parse_options(command.words[1:], found.options)
    programs = [value for _, value, kind in parsed.options if kind == "program" and value is not None]
    if comes_in(command.words[1:], found.script):
        return _noted(command, "code", f"{command.program} {_RUNS_SENT}")
    if not programs and not parsed.has(*found.script):
        programs = list(parsed.operands[:1])
    is_plain = all(one.is_literal and re.fullmatch(found.spelled, one.text, re.DOTALL) for one in programs)
    if parsed.unknown is None and is_plain:
        return command
    return _noted(command, "code", f"the {command.program} program may run others or write files")


def _run_later(command: Command, found: Wrapper, nest: Nest) -> Command:
    """Code that is put aside and runs without anybody looking."""
    del nest
    if any(word.text == found.unless for word in command.words[1:]):
        return command
    return _noted(command, "code", f"{command.program} runs code later, when nobody looks")


def _run_none(command: Command, found: Wrapper, nest: Nest) -> Command:
    """Nothing but the options listed can start a program."""
    command = _with_code(command, found)
    if found.spelled and any(re.search(found.spelled, word.text) for word in command.words[1:]):
        command = _noted(command, "code", f"the input of {command.program} may run programs")
    for _, value, kind in parse_options(command.words[1:], found.options).options if found.options else ():
        if kind == "line":
            command = _run_code(command, value, nest)
    return command


def _with_code(command: Command, found: Wrapper) -> Command:
    if any(is_code(word.text, found.code) for word in command.words[1:]):
        return _noted(command, "code", f"an option of {command.program} starts a program or runs code")
    if comes_in(command.words[1:], found.script):
        return _noted(command, "code", f"{command.program} {_RUNS_SENT}")
    return command


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
    words = tuple(_with_print(word, code, canonical) for word in command.words)
    return replace(command, words=words, inner=(*command.inner, node))


def _with_print(word: Word, code: Word, canonical: Word) -> Word:
    """Return a word with code (itself, or the value attached to an option) as it is printed."""
    if word is code:
        return canonical
    head = word.text.removesuffix(code.text)
    is_attached = word.is_literal and head != word.text and head.startswith("-") and code.text
    return literal(head + canonical.text) if is_attached else word


def _special(program: str, command: Command, nest: Nest) -> Command:
    """Programs whose own language says what they run."""
    if program == "trap":
        operands = parse_options(command.words[1:], "-l -p").operands
        if len(operands) < 2 or operands[0].text in {"", "-"}:
            return command
        return _run_code(command, operands[0], nest)
    if program == "git":
        command = replace(command, notes=(*command.notes, *git_notes(command.words)))
        if is_verb_open(command.words):
            command = _noted(command, "dynamic", f"git: {_DYNAMIC_VERB}")
        for code in git_runs(command.words):
            command = _run_code(command, code, nest)
        return command
    runs, reason = search_runs(command.words)
    command = _running(command, nest, *runs)
    return _noted(command, "wrapper", reason) if reason else command


_RUNS: dict[str, Callable[[Command, Wrapper, Nest], Command]] = {
    "command": _run_command,
    "line": _run_line,
    "shell": _run_shell,
    "script": _run_script,
    "program": _run_program,
    "later": _run_later,
    "none": _run_none,
}


def sent(nest: Nest, redirections: tuple[Redirection, ...]) -> Nest:
    """Return the nest in which something comes in if one of these redirections brings it."""
    brings = any(one.operator in {"<", "<<<"} for one in redirections)
    return replace(nest, sent=True) if brings and not nest.sent else nest
