"""Resolve the folder each command of a line starts in, and the paths its words may mean.

A `cd` changes the folder of the commands after it, for both outcomes of a condition. A folder or path that
cannot be followed, such as one in a variable of the line's own, is unknown, and an unknown path never counts
as inside the workspace.
"""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterator
from typing import TypeAlias

from ...lazy import dataclass, regex
from ...policy import Policy
from ..programs import git_folder, parse_options
from ..syntax import Command, Compound, Node, PartKind, PipeNode, Sequence, Word, literal
from .visit import commands_of

__all__ = [
    "Candidate",
    "Folders",
    "Placed",
    "git_places",
    "placed",
    "where",
]

Folders: TypeAlias = "frozenset[str] | None"
_Ends: TypeAlias = "tuple[Folders, Folders]"

# What moves the commands behind it to another folder.
_MOVES = frozenset({"cd", "pushd", "popd"})
# Characters that the shell neither splits nor expands, even unquoted.
_SAFE = regex(r"[A-Za-z0-9_./+@%:=,-]*")
_MOST_FOLDERS = 8
_MOST_MOVES = 16
_SAME_SHELL = frozenset({"eval", "command", "builtin", ".", "source"})


@dataclass(frozen=True, slots=True)
class Placed:
    """A command, and the folders it may start in (None: unknown)."""

    command: Command
    folders: Folders


@dataclass(frozen=True, slots=True)
class Candidate:
    """An absolute path a word may mean, or a glob to expand."""

    path: str
    is_glob: bool = False


def placed(root: Node, policy: Policy) -> tuple[Placed, ...]:
    """Return every command of a line with where it runs, in the order of the text."""
    found: list[Placed] = []
    _Walk(policy, found).go(root, frozenset({policy.workspace}))
    return tuple(found)


class _Walk:
    """Goes through a tree and collects; each step returns the folders after success and after failure."""

    def __init__(self, policy: Policy, found: list[Placed]) -> None:
        self.policy, self.found = policy, found
        self.moves = 0

    def go(self, node: Node, folders: Folders) -> _Ends:
        match node:
            case Command():
                return self._command(node, folders)
            case PipeNode(stages=stages):
                for stage in stages:
                    self.go(stage, folders)
                return folders, folders
            case Sequence():
                return self._sequence(node, folders)
            case Compound():
                return self._compound(node, folders)

    def _command(self, command: Command, folders: Folders) -> _Ends:
        self.found.append(Placed(command, folders))
        ends: _Ends = (folders, folders)
        inner_folders = None if command.inner and _starts_elsewhere(command) else folders
        for inner in command.inner:
            ends = self.go(inner, inner_folders)
        for word in (*command.words, *(one.value for one in command.assignments)):
            self._word(word, folders)
        for redirection in command.redirections:
            self._word(redirection.target, folders)
        if command.program in _MOVES:
            return self._moved(command, folders), folders
        if command.program in _SAME_SHELL and any(map(_moves, command.inner)):
            return ends if len(command.inner) == 1 else (None, None)
        return folders, folders

    def _word(self, word: Word, folders: Folders) -> None:
        for part in word.parts:
            if part.body is not None:
                self.go(part.body, folders)

    def _moved(self, command: Command, folders: Folders) -> Folders:
        self.moves += 1
        parsed = parse_options(command.words[1:], "-LP")
        operands = parsed.operands
        if (
            self.moves > _MOST_MOVES
            or command.program not in {"cd", "pushd"}
            or (command.program == "pushd" and not _is_folder(operands))
            or len(operands) > 1
            or parsed.unknown is not None
        ):
            return None
        word = operands[0] if operands else literal(self.policy.home)
        found = where(word, folders, self.policy)
        if found is None or any(one.is_glob for one in found) or word.text == "-":
            return None
        # The shell resolves `..` in the text of the folder, before any link is followed; with -P it does not.
        moved = frozenset(posixpath.normpath(one.path) for one in found)
        if parsed.has("-P"):
            moved |= {one.path for one in found}
        return moved if len(moved) <= _MOST_FOLDERS else None

    def _sequence(self, node: Sequence, folders: Folders) -> _Ends:
        good, bad = folders, folders
        start: Folders = folders
        waiting = ";"
        for item, separator in zip(node.items, node.separators, strict=True):
            start = {"&&": good, "||": bad}.get(waiting, _either(good, bad))
            before = (good, bad)
            if separator == "&":
                self.go(item, start)
                good, bad = _either(*before), _either(*before)
            else:
                good, bad = self.go(item, start)
                if waiting == "&&":
                    bad = _either(bad, before[1])
                elif waiting == "||":
                    good = _either(good, before[0])
            waiting = separator
        return good, bad

    def _compound(self, node: Compound, folders: Folders) -> _Ends:
        if node.kind in {"negation", "time"} and not isinstance(node.pieces[1], (str, Word)):
            good, bad = self.go(node.pieces[1], folders)
            return (bad, good) if node.kind == "negation" else (good, bad)
        if node.redirections:
            self.found.append(Placed(Command((), redirections=node.redirections), folders))
            for redirection in node.redirections:
                self._word(redirection.target, folders)
        stays = node.kind in {"group", "subshell"} or not _moves(node)
        inside = folders if stays else None
        ends: _Ends = (inside, inside)
        for piece in node.pieces:
            if isinstance(piece, Word):
                self._word(piece, folders)
            elif not isinstance(piece, str):
                ends = self.go(piece, inside)
        if node.kind == "subshell" or (stays and node.kind != "group"):
            return folders, folders
        return ends if stays else (None, None)


def _either(one: Folders, other: Folders) -> Folders:
    return None if one is None or other is None or len(one | other) > _MOST_FOLDERS else one | other


def _is_folder(operands: tuple[Word, ...]) -> bool:
    """Whether `pushd` goes to a folder, and not to one it went to before."""
    return bool(operands) and not operands[0].text.startswith(("+", "-"))


def _moves(node: Node) -> bool:
    """Whether anything in a tree changes the folder of the shell it runs in; subshells count, to be safe."""
    return any(command.program in _MOVES for command in commands_of(node))


def _starts_elsewhere(command: Command) -> bool:
    if command.program in {"find", "fd"}:
        return any(word.text in {"-execdir", "-okdir"} for word in command.words)
    if command.program in {"ssh", "chroot", "nsenter", "unshare", "systemd-run"}:
        return True
    if command.program in {"sudo", "su", "runuser"}:
        # A login starts at home; all other options that lead elsewhere are in capitals.
        texts = {word.text for word in command.words}
        runs = {word.text for one in command.inner if isinstance(one, Command) for word in one.words}
        return any(re.match(r"-$|-\w*[liDR]|--(?:l|ch)", text) for text in texts - runs)
    return command.program == "env" and any(re.match(r"-[iv0]*C|--c", word.text) for word in command.words)


def where(word: Word, folders: Folders, policy: Policy) -> tuple[Candidate, ...] | None:
    """Return the paths a word may mean, or None where that is unknown."""
    pieces = [(PartKind.LITERAL, word.text)] if word.is_literal else list(_pieces(word, folders, policy))
    if None in pieces or not pieces:
        return None
    known = [piece for piece in pieces if piece is not None]
    is_glob = any(kind is PartKind.GLOB for kind, _ in known)
    text = "".join(
        glob.escape(text) if is_glob and kind is PartKind.LITERAL else text for kind, text in known
    )
    if not text or "\0" in text:
        return None
    if text.startswith("/"):
        return (Candidate(text, is_glob),)
    if folders is None:
        return None
    starts = (glob.escape(folder) if is_glob else folder for folder in sorted(folders))
    return tuple(Candidate(posixpath.join(start, text), is_glob) for start in starts)


def _pieces(word: Word, folders: Folders, policy: Policy) -> Iterator[tuple[PartKind, str] | None]:
    for part in word.parts:
        match part.kind:
            case PartKind.LITERAL | PartKind.GLOB:
                yield part.kind, part.text
            case PartKind.TILDE if part.text == "~":
                yield PartKind.LITERAL, policy.home
            case PartKind.TILDE if part.text == "~+" and folders is not None and len(folders) == 1:
                yield PartKind.LITERAL, next(iter(folders))
            case PartKind.VARIABLE if part.text == "HOME":
                yield (PartKind.LITERAL, policy.home) if part.quoted or _SAFE.fullmatch(policy.home) else None
            case PartKind.VARIABLE if part.text == "PWD" and folders is not None and len(folders) == 1:
                here = next(iter(folders))
                yield (PartKind.LITERAL, here) if part.quoted or _SAFE.fullmatch(here) else None
            case _:
                yield None


def git_places(at: Placed, policy: Policy) -> Folders:
    """Return the folders a git command works in, `-C` included."""
    folders = at.folders
    for word in git_folder(at.command.words):
        found = where(word, folders, policy)
        if found is None or any(one.is_glob for one in found):
            return None
        folders = frozenset(one.path for one in found)
    return folders
