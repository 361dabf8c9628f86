"""Suggest a line or a tool that does what was probably meant, and no harm.

Every suggested line is parsed and judged like any other, and suggested only if it passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ...kinds import CommandLine, Unreadable
from ...lazy import dataclass
from ...policy import Policy, ShellRules
from ..expand import parse_command, print_line
from ..syntax import Command, Node, PartKind, PipeNode
from .network import destinations_of
from .verdict import Say, ruled

__all__ = ["Suggestion", "alternative", "suggestion_for"]

_RUNNERS = frozenset("sh bash dash zsh python python3 node perl ruby".split())


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another call: a tool and the value of its main argument; `why` says what is better about it.

    One that `is_safer` is worth the same question.
    """

    tool: str
    value: str
    why: str
    is_safer: bool = False

    def __str__(self) -> str:
        return f"{self.tool}: {self.value} ({self.why})"


def suggestion_for(
    line: CommandLine, policy: Policy, rules: ShellRules
) -> tuple[Suggestion, CommandLine | None] | None:
    """Return what could be meant and would pass, and what is read of it where it is a line, or None.

    A line is judged with the facts of the original. Instead of what is refused, what is asked about is
    better; else only what needs no question.
    """
    found, instead = alternative(line)
    if found is None or isinstance(instead, Unreadable):
        return None
    if instead is None:
        return found, None
    is_better = found.is_safer or ruled(line, line.facts, policy, rules).say == Say.DENY
    say = ruled(instead, line.facts, policy, rules).say
    passes = say == Say.NOTHING or (say == Say.ASK and is_better)
    return (found, replace(instead, facts=line.facts)) if passes else None


def alternative(line: CommandLine) -> tuple[Suggestion | None, CommandLine | Unreadable | None]:
    """Return what could be meant instead of a line, and what is read of it where that is a line, too."""
    return line.once.of(_alternative, line.root)


def _alternative(root: Node) -> tuple[Suggestion | None, CommandLine | Unreadable | None]:
    found = _meant(root)
    return found, parse_command(found.value) if found is not None and found.tool == "shell" else None


def _meant(root: Node) -> Suggestion | None:
    """Return what could be meant by a line that is one plain command, or a page handed to a shell."""
    if isinstance(root, PipeNode) and isinstance(root.stages[0], Command):
        runs = isinstance(root.stages[-1], Command) and root.stages[-1].program in _RUNNERS
        page = _page(root.stages[0], root) if runs else None
        return replace(page, why="reads it before anything of it runs") if page is not None else None
    if isinstance(root, Command) and all(
        part.kind in {PartKind.LITERAL, PartKind.GLOB} for word in root.words for part in word.parts
    ):
        rewrite = _REWRITES.get(root.program)
        return rewrite(root) if rewrite is not None else None
    return None


def _page(command: Command, around: Node | None = None) -> Suggestion | None:
    if command.program not in {"curl", "wget"} or command.redirections:
        return None
    urls = [text for text in destinations_of(around or command) if text.startswith("https://")]
    sends = any(
        word.text.startswith(("-X", "-d", "--data", "-F", "-T", "--upload", "--post", "-o", "-O"))
        for word in command.words
    )
    return (
        Suggestion("fetch", urls[0], "reads a page without a program")
        if len(urls) == 1 and not sends
        else None
    )


def _once(command: Command) -> Suggestion | None:
    if len(command.inner) == 1 and isinstance(command.inner[0], Command):
        return Suggestion("shell", print_line(command.inner[0]), "runs it as you, once")
    return None


def _unwanted(command: Command) -> Suggestion | None:
    """Suggest listing untracked files, the likely intent, instead of removing a whole work tree."""
    operands = {word.text for word in command.words[1:] if not word.text.startswith("-")}
    removes = command.program == "rm" and operands & {".", "./", "⟨*⟩", "./⟨*⟩", ".⟨*⟩"}
    forces = "clean" in operands and any(re.match(r"-[a-z]*f|--fo", word.text) for word in command.words)
    if removes or (command.program == "git" and forces):
        return Suggestion("shell", "git clean -n -d", "lists what git would remove", is_safer=True)
    return None


_Rewrite = Callable[[Command], Suggestion | None]

# What is tried for which program.
_REWRITES: dict[str, _Rewrite] = {
    **dict.fromkeys(("curl", "wget"), _page),
    **dict.fromkeys(("watch", "sudo", "doas"), _once),
    "rm": _unwanted,
    "git": _unwanted,
}
