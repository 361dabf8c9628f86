"""Suggest a line or a tool that does what was probably meant without a question.

Every suggested line is parsed and judged like any other, and suggested only if it passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...kinds import Unreadable
from ...policy import Policy, ShellRules
from ..expand import parse_command, print_line, quoted
from ..syntax import Command, CommandLine, Node, PartKind, PipeNode, Word, literal
from .network import destinations_of
from .verdict import Say, ruled

__all__ = ["Suggestion", "alternatives", "suggestions_for"]

_THROWING = tuple(
    line.split()
    for line in (
        "reset --hard",
        "reset --hard HEAD",
        "checkout .",
        "checkout -- .",
        "checkout -f",
        "restore .",
    )
)
_RUNNERS = frozenset("sh bash dash zsh python python3 node perl ruby".split())
_PAGERS = frozenset("less more most vi vim nano view bat batcat vimcat emacs".split())


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


def suggestions_for(
    line: CommandLine, policy: Policy, rules: ShellRules
) -> Iterator[tuple[Suggestion, CommandLine | None]]:
    """Yield the candidates that would pass, and what is read of those that are lines.

    Lines are judged with the facts of the original. Instead of what is refused, what is asked about is
    better; else only what needs no question.
    """
    refused = ruled(line, line.facts, policy, rules).say == Say.DENY
    for found, instead in alternatives(line):
        if instead is None:
            yield found, None
            continue
        if isinstance(instead, Unreadable):
            continue
        said = ruled(instead, line.facts, policy, rules).say
        if said == Say.NOTHING or (said == Say.ASK and (refused or found.is_safer)):
            yield found, replace(instead, facts=line.facts)


def alternatives(line: CommandLine) -> tuple[tuple[Suggestion, CommandLine | Unreadable | None], ...]:
    """Return what could be meant instead of a line, and what is read of it where that is a line, too."""
    return line.once.of(_alternatives, line.root)


def _alternatives(root: Node) -> tuple[tuple[Suggestion, CommandLine | Unreadable | None], ...]:
    found = tuple(_candidates(root))
    return tuple((one, parse_command(one.value) if one.tool == "shell" else None) for one in found)


def _candidates(root: Node) -> Iterator[Suggestion]:
    """Yield what could be meant, for a line that is one plain command, or a page handed to a shell."""
    if isinstance(root, PipeNode) and isinstance(root.stages[0], Command):
        runs = isinstance(root.stages[-1], Command) and root.stages[-1].program in _RUNNERS
        page = _page(root.stages[0], root) if runs else None
        if page is not None:
            yield replace(page, why="reads it before anything of it runs")
        return
    if isinstance(root, Command) and not any(map(_is_open, root.words)):
        tried = (rewrite(root) for rewrite in _REWRITES.get(root.program, ()))
        yield from (found for found in tried if found is not None)


def _is_open(word: Word) -> bool:
    """Whether a word is more than a literal or a pattern."""
    return any(part.kind not in {PartKind.LITERAL, PartKind.GLOB} for part in word.parts)


def _line(words: tuple[Word, ...], why: str) -> Suggestion:
    # Git is not suggested as it is run, with everything off, but as anybody would say it.
    is_plain = all(word.is_literal for word in words)
    text = " ".join(quoted(word.text) for word in words) if is_plain else print_line(Command(words))
    return Suggestion("shell", text, why)


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


def _pager(command: Command) -> Suggestion | None:
    files = tuple(word for word in command.words[1:] if not word.text.startswith(("-", "+")))
    return _line((literal("cat"), literal("--"), *files), "prints it without a pager") if files else None


def _following(command: Command) -> Suggestion | None:
    kept = tuple(word for word in command.words if word.text not in {"-f", "-F", "--follow"})
    return _line(kept, "ends by itself") if len(kept) < len(command.words) else None


def _once(command: Command) -> Suggestion | None:
    if command.program == "top":
        return _line(tuple(map(literal, "top -b -n 1".split())), "ends by itself")
    if len(command.inner) == 1 and isinstance(command.inner[0], Command):
        return Suggestion("shell", print_line(command.inner[0]), "runs it as you, once")
    return None


def _without_links(command: Command) -> Suggestion | None:
    words = tuple(
        literal(word.text.replace("R", "r"))
        if word.text.startswith("-") and not word.text.startswith("--")
        else word
        for word in command.words
    )
    return _line(words, "does not follow links") if words != command.words else None


def _looking(command: Command) -> Suggestion | None:
    texts = [word.text for word in command.words]
    cut = next(
        (at for at, text in enumerate(texts) if text in {"-delete", "-exec", "-execdir", "-ok", "-okdir"}),
        None,
    )
    return _line(command.words[:cut], "lists what it would touch") if cut else None


def _work_tree(command: Command) -> Suggestion | None:
    targets = _operands(command)
    if len(targets) != 1:
        return None
    name = f"/{targets[0].rstrip('/')}".partition("/.git/worktrees/")[2]
    return _line(_words("git worktree remove", name), "removes the work tree, too") if name else None


def _unwanted(command: Command) -> Suggestion | None:
    """Suggest listing untracked files, the likely intent, instead of removing a whole work tree."""
    removes = command.program == "rm" and set(_operands(command)) & {".", "./", "⟨*⟩", "./⟨*⟩", ".⟨*⟩"}
    forces = any(re.match(r"-[a-z]*f|--fo", word.text) for word in command.words)
    if removes or (command.program == "git" and _verb(command) == "clean" and forces):
        return _safer(_words("git clean -n -d"), "lists what git would remove")
    return None


def _leased(command: Command) -> Suggestion | None:
    texts = [word.text for word in command.words]
    if _verb(command) != "push" or not {"-f", "--force"} & set(texts):
        return None
    again = ("--force-with-lease" if text in {"-f", "--force"} else text for text in texts)
    return _safer(tuple(map(literal, again)), "keeps what others pushed meanwhile")


def _kept(command: Command) -> Suggestion | None:
    """Suggest putting changes aside instead of discarding them."""
    texts = [word.text for word in command.words]
    return _safer(_words("git stash"), "puts the changes aside") if texts[1:] in _THROWING else None


def _unstaged(command: Command) -> Suggestion | None:
    texts = [word.text for word in command.words]
    if texts[:2] != ["git", "reset"] or any(text.startswith("-") and text != "--" for text in texts):
        return None
    files = [text for text in texts[2:] if text not in {"HEAD", "--"}]
    is_files = bool(files) and ("--" in texts or "HEAD" in texts[2:3])
    return _safer(_words("git restore --staged --", *files), "leaves the files alone") if is_files else None


def _listed(command: Command) -> Suggestion | None:
    """Suggest listing an archive instead of unpacking it."""
    operands = _operands(command)
    if command.program == "unzip" and operands:
        return _line(_words("unzip -l", operands[0]), "lists what is in it")
    if command.program != "tar" or not re.match(
        r"-?[a-z]*x", " ".join(word.text for word in command.words[1:2])
    ):
        return None
    archive = next((text for text in operands if re.search(r"\.(?:tar|tgz|tbz2?|txz)\b", text)), None)
    return _line(_words("tar -tf", archive), "lists what is in it") if archive else None


def _sorted(command: Command) -> Suggestion | None:
    texts = [word.text for word in command.words]
    if "-o" not in texts[:-1]:
        return None
    at = texts.index("-o")
    return _line(tuple(map(literal, (*texts[:at], *texts[at + 2 :]))), "prints instead of writing")


def _operands(command: Command) -> list[str]:
    return [word.text for word in command.words[1:] if not word.text.startswith("-")]


def _verb(command: Command) -> str:
    return next(iter(_operands(command)), "")


def _words(start: str, *more: str) -> tuple[Word, ...]:
    return tuple(map(literal, (*start.split(), *more)))


def _safer(words: tuple[Word, ...], why: str) -> Suggestion:
    return replace(_line(words, why), is_safer=True)


def _printed_date(command: Command) -> Suggestion | None:
    if len(command.words) == 2:
        return _line((literal("whatis"), command.words[1]), "says what it is without a pager")
    return None


_Rewrite = Callable[[Command], Suggestion | None]

# What is tried for which program, in this order.
_REWRITES: dict[str, tuple[_Rewrite, ...]] = {
    **dict.fromkeys(("curl", "wget"), (_page,)),
    **dict.fromkeys(_PAGERS, (_pager,)),
    **dict.fromkeys(("top", "watch", "sudo", "doas"), (_once,)),
    "tail": (_following,),
    "grep": (_without_links,),
    "find": (_looking,),
    "rm": (_work_tree, _unwanted),
    "git": (_unwanted, _leased, _kept, _unstaged),
    **dict.fromkeys(("unzip", "tar"), (_listed,)),
    "sort": (_sorted,),
    "man": (_printed_date,),
}
