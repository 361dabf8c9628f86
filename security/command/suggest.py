"""What would pass instead? A line or a tool that does what was probably meant, without a question.

Only what was tried is suggested: a suggested line is read and judged like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..policy import Policy
from ..unreadable import Unreadable
from .destinations import destinations
from .nouns import Command, CommandLine, Word, literal
from .printing import print_line
from .read import parse_command
from .rules import ShellRules
from .verdict import Say, ruling_of

__all__ = ["Suggestion", "candidates", "suggestion_for"]

_PAGERS = frozenset("less more most vi vim nano view bat batcat vimcat emacs".split())


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another call: a tool and the value of its main argument; `why` says what is better about it."""

    tool: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.value} ({self.why})"


def suggestion_for(line: CommandLine, policy: Policy, rules: ShellRules) -> Suggestion | None:
    """Return the first candidate that would pass; lines are judged with the facts of the original."""
    for found in candidates(line):
        if found.tool != "shell":
            return found
        again = parse_command(found.value)
        if isinstance(again, Unreadable):
            continue
        if ruling_of(replace(again, facts=line.facts), found.value, policy, rules).say == Say.NOTHING:
            return found
    return None


def candidates(line: CommandLine) -> Iterator[Suggestion]:
    """Yield what could be meant, for a line that is one plain command."""
    root = line.root
    if not isinstance(root, Command) or not root.words or any(word.parts for word in root.words):
        return
    for rewrite in _REWRITES:
        found = rewrite(root, line)
        if found is not None:
            yield found


def _line(words: tuple[Word, ...], why: str) -> Suggestion:
    return Suggestion("shell", print_line(Command(words)), why)


def _page(command: Command, line: CommandLine) -> Suggestion | None:
    if command.program not in {"curl", "wget"} or command.redirections:
        return None
    urls = [text for text in destinations(line) if text.startswith("https://")]
    sends = any(
        word.text.startswith(("-X", "-d", "--data", "-F", "-T", "--upload", "--post", "-o", "-O"))
        for word in command.words
    )
    return (
        Suggestion("fetch", urls[0], "reads a page without a program")
        if len(urls) == 1 and not sends
        else None
    )


def _pager(command: Command, _: CommandLine) -> Suggestion | None:
    files = tuple(word for word in command.words[1:] if not word.text.startswith(("-", "+")))
    if command.program not in _PAGERS or not files:
        return None
    return _line((literal("cat"), literal("--"), *files), "prints it without a pager")


def _following(command: Command, _: CommandLine) -> Suggestion | None:
    if command.program != "tail":
        return None
    kept = tuple(word for word in command.words if word.text not in {"-f", "-F", "--follow"})
    return _line(kept, "ends by itself") if len(kept) < len(command.words) else None


def _once(command: Command, _: CommandLine) -> Suggestion | None:
    if command.program == "top":
        return _line(tuple(map(literal, "top -b -n 1".split())), "ends by itself")
    if (
        command.program in {"watch", "sudo", "doas"}
        and len(command.inner) == 1
        and isinstance(command.inner[0], Command)
    ):
        return Suggestion("shell", print_line(command.inner[0]), "runs it as you, once")
    return None


def _without_links(command: Command, _: CommandLine) -> Suggestion | None:
    if command.program != "grep":
        return None
    words = tuple(
        literal(word.text.replace("R", "r"))
        if word.text.startswith("-") and not word.text.startswith("--")
        else word
        for word in command.words
    )
    return _line(words, "does not follow links") if words != command.words else None


def _looking(command: Command, _: CommandLine) -> Suggestion | None:
    if command.program != "find":
        return None
    texts = [word.text for word in command.words]
    cut = next(
        (at for at, text in enumerate(texts) if text in {"-delete", "-exec", "-execdir", "-ok", "-okdir"}),
        None,
    )
    return _line(command.words[:cut], "lists what it would touch") if cut else None


def _work_tree(command: Command, _: CommandLine) -> Suggestion | None:
    targets = [word.text for word in command.words[1:] if not word.text.startswith("-")]
    if command.program != "rm" or len(targets) != 1 or "/.git/worktrees/" not in f"/{targets[0]}":
        return None
    why = "shows which could be removed with git worktree remove"
    return Suggestion("shell", "git worktree list", why)


def _printed_date(command: Command, _: CommandLine) -> Suggestion | None:
    if command.program == "man" and len(command.words) == 2:
        return _line((literal("whatis"), command.words[1]), "says what it is without a pager")
    return None


_REWRITES: tuple[Callable[[Command, CommandLine], Suggestion | None], ...] = (
    _page,
    _pager,
    _following,
    _once,
    _without_links,
    _looking,
    _work_tree,
    _printed_date,
)
