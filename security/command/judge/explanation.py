"""Render a command line for approval: a tree of everything it runs, with every disguise made visible.

Each command is one line of text, indented below the construct it is in. Equal neighbours are counted.
Files written, hosts reached and parts that were not understood are listed separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ...kinds import CommandLine, Unreadable
from ...text import visible
from ..expand import commands_of, is_sink, quoted
from ..syntax import Command, Compound, Node, PipeNode, Redirection, Sequence, Word, is_harmless
from .network import destinations

__all__ = ["explain", "is_shown_in_full"]

_JOINED = {"&&": "and then, if that worked", "||": "or, if that failed"}
# The first words of all lines that are not commands.
_OURS = frozenset(
    "writes: connects not as runs with sets in and or pipeline for while until do select if then elif else "
    "case when group subshell negation function time".split()
)
# Reasons that need no word of the line; for the others the words count.
_NAMED = frozenset({"subshell", "group", "negation", "function"})
_WIDEST = 400
_MOST_LINES = 60


def explain(line: CommandLine | Unreadable, raw: str) -> tuple[str, ...]:
    """Return the lines that show what a command line does."""
    if isinstance(line, Unreadable):
        return (f"not understood: {line.reason}", f"as written: {_shown(raw)}")
    found = list(_collapsed(_tree(line.root, 0)))
    found += [f"writes: {target}" for target in _written(line)]
    found += [f"connects to: {_shown(target)}" for target in destinations(line)]
    found += [f"not understood: {reason}" for reason in _reasons(line)]
    return tuple(found)


def is_shown_in_full(lines: tuple[str, ...]) -> bool:
    """Whether a person sees all of it at once; else it must be paged and cannot be allowed for always."""
    return len(lines) <= _MOST_LINES and all(len(line) <= _WIDEST for line in lines)


def _tree(node: Node, depth: int) -> Iterator[str]:
    indent = "  " * depth
    match node:
        case Command():
            yield from _command(node, depth)
        case PipeNode(stages=stages):
            yield f"{indent}pipeline"
            for stage in stages:
                yield from _tree(stage, depth + 1)
        case Sequence(items=items, separators=separators):
            for item, separator in zip(items, separators, strict=True):
                if separator == "&":
                    yield f"{indent}in the background"
                yield from _tree(item, depth + (separator == "&"))
                if separator in {"&&", "||"}:
                    yield indent + _JOINED[separator]
        case Compound():
            yield from _compound(node, depth)


def _compound(compound: Compound, depth: int) -> Iterator[str]:
    """Yield what decides whether and how often something runs, and below each of it what that is."""
    indent = "  " * depth
    redirected = compound.redirections
    for clause, node in _clauses(compound):
        words = [one for one in clause if isinstance(one, Word)] + [one.target for one in redirected]
        if clause:
            shown = [_word(one) if isinstance(one, Word) else one for one in clause]
            yield indent + " ".join([*shown, *map(_redirection, redirected)])
            redirected = ()
        for word in words:
            yield from _substituted(word, depth + 1)
        if node is not None:
            yield from _tree(node, depth + 1)


def _clauses(compound: Compound) -> Iterator[tuple[list[str | Word], Node | None]]:
    """Yield the keywords and words before each statement, with that statement."""
    is_named = compound.kind in _NAMED
    clause: list[str | Word] = [f"{compound.kind} {compound.name}".rstrip()] if is_named else []
    for piece in compound.pieces:
        match piece:
            case ";":
                yield clause, None
                clause = []
            case "in" if compound.kind == "case":
                yield clause, None
                clause = ["when"]
            case ";;":
                clause = ["when"]
            case ";&" | ";;&":
                clause = [f"and then, with {piece},", "when"]
            case "fi" | "done" | "esac":
                clause = []
            case str():
                clause += [] if is_named or piece == ")" else [piece]
            case Word():
                clause.append(piece)
            case _:
                yield clause, piece
                clause = []
    if clause:
        yield clause, None


def _first(word: Word) -> str:
    """Return a program's name; one that begins like a line of ours is put in quotation marks."""
    shown = _word(word)
    return f"'{shown}'" if shown in _OURS else shown


def _command(command: Command, depth: int) -> Iterator[str]:
    indent = "  " * depth
    assigned = [f"{one.name}={_word(one.value)}" for one in command.assignments]
    redirected = map(_redirection, command.redirections)
    words = [*map(_first, command.words[:1]), *map(_word, command.words[1:])]
    yield indent + " ".join([*assigned, *words, *redirected])
    for one in command.assignments:
        if not is_harmless(one) and command.words:
            yield f"{indent}  sets {one.name} for it"
    for inner in command.inner:
        yield f"{indent}  runs"
        yield from _tree(inner, depth + 2)
    for word in (
        *command.words,
        *(one.value for one in command.assignments),
        *(one.target for one in command.redirections),
    ):
        yield from _substituted(word, depth + 1)


def _substituted(word: Word, depth: int) -> Iterator[str]:
    for part in word.parts:
        if part.body is not None:
            yield f"{'  ' * depth}with the output of"
            yield from _tree(part.body, depth + 1)


def _redirection(one: Redirection) -> str:
    return f"{one.fd}{one.operator}{_word(one.target)}"


def _word(word: Word) -> str:
    return _shown(word.text) if word.parts else _shown(quoted(word.text))


def _shown(text: str) -> str:
    """Make control and invisible characters visible, newlines too: a line of ours is one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _collapsed(lines: Iterator[str]) -> Iterator[str]:
    """Count neighbouring lines that are the same."""
    for line, same in groupby(lines):
        times = sum(1 for _ in same)
        yield line + (f"  (× {times})" if times > 1 else "")


def _written(line: CommandLine) -> list[str]:
    found: dict[str, None] = {}
    for command in commands_of(line.root):
        for redirection in command.redirections:
            if redirection.writes and not is_sink(redirection):
                how = "added to" if redirection.operator in {">>", "&>>"} else "replaced"
                found[f"{_word(redirection.target)} ({how})"] = None
    return list(found)


def _reasons(line: CommandLine) -> list[str]:
    reasons = (note.reason for command in commands_of(line.root) for note in command.notes)
    return list(dict.fromkeys(reasons))
