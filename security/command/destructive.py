"""Does a command destroy what no task in a workspace needs to destroy? That is a no, whoever asks.

Meant are the roots of things (`/`, the system's folders, homes, the workspace itself, `.git`), devices,
files the system or a shell obeys, and the machine as such, in any spelling.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from ..workspace import is_inside, protected_reason, secret_reason
from .nouns import Command, Compound, Node, PartKind, Pipeline, Redirection, Sequence, Word, literal
from .paths import Scene
from .places import Candidate, Placed, where
from .searches import find_starts
from .transform import visits

__all__ = ["bomb", "crude_words", "destruction", "unsure_destruction"]

_POWER = frozenset("shutdown reboot halt poweroff kexec killall5 systemctl-reboot".split())
_POWER_STATES = frozenset(
    "poweroff reboot halt kexec suspend hibernate hybrid-sleep rescue emergency soft-reboot".split()
)
_FORMATTERS = re.compile(
    r"mkfs(?:\..*)?|mke2fs|mkswap|wipefs|blkdiscard|sfdisk|mkdosfs|mkntfs|newfs(?:_.*)?|diskutil"
)
_DISK_VERBS = {
    "cryptsetup": {"luksFormat", "erase", "luksErase"},
    "zpool": {"destroy", "labelclear"},
    "zfs": {"destroy"},
    "nvme": {"format", "sanitize"},
    "mdadm": {"--zero-superblock"},
    "hdparm": {"--security-erase", "--security-erase-enhanced", "--trim-sector-ranges"},
    "parted": {"mklabel", "mktable", "rm"},
    "sgdisk": {"-Z", "-z", "-o", "--zap", "--zap-all", "--clear"},
    "badblocks": {"-w"},
}
_MANY = frozenset({"lvremove", "vgremove", "pvremove", "mkfs"})
_OWNERS = frozenset({"chmod", "chown", "chgrp", "chattr", "setfacl", "chcon"})
_WRITERS = frozenset({"tee", "truncate", "shred", "rm", "unlink", "wipe", "srm", "sponge"})
_COPIERS = frozenset({"cp", "mv", "install", "ln", "rsync", "scp"})
_QUIET_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|stdout|stderr|stdin|tty|fd/\d+|shm(?:/.*)?|pts/\d+|tcp/.*|udp/.*)"
)
_EVERYTHING = re.compile(r"(?:[*?]|\.(?=[*?\[])|\[!?\^?\.?\])+/*")
_MOST_WORDS = 64
_MOST_CHUNKS = 64
_HOMES = re.compile(r"/(?:home|Users)/[^/]+|/root|/var/root")


def destruction(at: Placed, scene: Scene) -> tuple[str, str] | None:
    """Return what a command would destroy and why that is a no, or None."""
    for redirection in at.command.redirections:
        if redirection.writes and (why := _written(redirection.target, scene)) is not None:
            return redirection.target.text, why
    words = at.command.words
    if not words:
        return None
    for rule in _RULES:
        found = rule(at.command.program, words[1:], scene)
        if found is not None:
            return found
    return None


def unsure_destruction(command: Command) -> str | None:
    """Say why only a person may judge a removal whose target is not known, or None."""
    if command.program not in {"rm", "shred"} | _OWNERS or not _is_recursive(command.words[1:]):
        return None
    unknown = {PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION, PartKind.ARITHMETIC}
    for word in command.words[1:]:
        if any(part.kind in unknown for part in word.parts) or (
            word.parts and word.parts[0].kind is PartKind.GIVEN
        ):
            return "what is removed or changed is only known when it runs"
    return None


def _machine(program: str, words: tuple[Word, ...], _: Scene) -> tuple[str, str] | None:
    texts = {word.text for word in words}
    why = "it stops the machine"
    if program in _POWER or (program == "systemctl" and texts & _POWER_STATES):
        return program, why
    if program in {"init", "telinit"} and texts & {"0", "6", "1", "s", "S"}:
        return program, why
    if program == "kill" and [word.text for word in words][-1:] == ["-1"] and len(words) > 1:
        return program, "it ends every program there is"
    return None


def _disks(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    operands = [word for word in words if not word.text.startswith("-")]
    why = "it writes to a disk past its file system"
    if (_FORMATTERS.fullmatch(program) or program in _MANY) and operands:
        return operands[-1].text, why
    if {word.text for word in words} & _DISK_VERBS.get(program, set()):
        return program, why
    if program == "dd":
        for word in words:
            if word.text.startswith("of="):
                target = _behind(word, len("of="))
                if (reason := _written(target, scene)) is not None:
                    return target.text, reason
    return None


def _behind(word: Word, start: int) -> Word:
    """Return a word without its literal beginning."""
    if word.is_literal:
        return literal(word.text[start:])
    rest = word.parts[1:] if len(word.parts[0].text) == start else word.parts
    return Word(word.text[start:], rest)


def _writers(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    operands = [word for word in words if not word.text.startswith("-")]
    if program in _WRITERS:
        targets = operands
    elif program in _COPIERS:
        targets = operands[-1:] if len(operands) > 1 else []
    else:
        return None
    for word in targets:
        for path in _paths(word, scene):
            if _is_device(path):
                return word.text, "it writes to a device"
            if program in _WRITERS and (why := protected_reason(path, scene.policy)) is not None:
                return word.text, f"this file must not be changed: {why}"
    return None


def _removals(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    if program in {"find", "gfind"}:
        return _found_removals(words, scene)
    if program in {"rm", "srm", "shred", "mv", "rmtree", "trash", "wipe"}:
        if program in {"rm", "shred"} and not _is_recursive(words):
            return None
        operands = [word for word in words if not word.text.startswith("-") or word.text == "-"]
        if program == "mv":
            operands = operands[:-1]
    elif program == "rsync" and any(word.text.startswith("--del") for word in words):
        operands = words[-1:] if words else []  # type: ignore[assignment]  # both are only gone through
    else:
        return None
    for word in operands:
        why = _root(word, scene, spares_workspace=program == "mv")
        if why is not None:
            return word.text, f"it removes {why}"
    return None


def _found_removals(words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    texts = [word.text for word in words]
    runs = {
        text.rpartition("/")[2] for before, text in pairwise(texts) if before.startswith(("-exec", "-ok"))
    }
    if "-delete" not in texts and not runs & {"rm", "shred", "unlink", "srm"}:
        return None
    narrowed = any(
        text.startswith(
            (
                "-name",
                "-iname",
                "-path",
                "-regex",
                "-iregex",
                "-wholename",
                "-empty",
                "-newer",
                "-mtime",
                "-mmin",
                "-size",
                "-user",
            )
        )
        for text in texts
    )
    for word in find_starts(words):
        why = _root(word, scene, spares_workspace=narrowed)
        if why is not None:
            return word.text, f"it removes {why}"
    return None


def _owners(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    if program not in _OWNERS or not _is_recursive(words):
        return None
    for word in words:
        why = None if word.text.startswith("-") else _root(word, scene, spares_workspace=True)
        if why is not None and "git" not in why:
            return word.text, f"it changes who may use {why}"
    return None


_Rule = Callable[[str, "tuple[Word, ...]", Scene], "tuple[str, str] | None"]
_RULES: tuple[_Rule, ...] = (_machine, _disks, _writers, _removals, _owners)


def _is_recursive(words: tuple[Word, ...]) -> bool:
    """Whether `-r` is among the options, in a cluster or as any abbreviation of `--recursive`."""
    for word in words:
        text = word.text
        if text == "--":
            return False
        if text.startswith("--"):
            if len(text) > 2 and "--recursive".startswith(text):
                return True
        elif text.startswith("-") and re.search("[rR]", text):
            return True
    return False


def _root(word: Word, scene: Scene, *, spares_workspace: bool) -> str | None:
    """Say which root a word means, or None."""
    if word.parts and word.parts[0].kind is PartKind.TILDE and word.parts[0].text not in {"~", "~+", "~-"}:
        return "somebody's home"
    found = where(word, scene.folders, scene.ground)
    if found is None:
        climbs = word.is_literal and posixpath.normpath(word.text).startswith("..")
        return "a folder above this one" if climbs else None
    for candidate in found:
        for path in _spellings(candidate, scene):
            why = _why_root(path, scene, spares_workspace=spares_workspace or bool(candidate.below))
            if why is not None:
                return why
    return None


def _spellings(candidate: Candidate, scene: Scene) -> Iterator[str]:
    """Yield a candidate's path normalised and resolved; a pattern that matches everything is its folder."""
    path = candidate.path
    if candidate.is_glob:
        folder, _, last = path.rstrip("/").rpartition("/")
        if _EVERYTHING.fullmatch(last):
            path = folder or "/"
    yield "/" + posixpath.normpath(path).lstrip("/")
    real = scene.facts.real.get(path)
    if real is not None:
        yield real


def _why_root(path: str, scene: Scene, *, spares_workspace: bool) -> str | None:
    workspace, home = scene.policy.workspace, scene.policy.home
    if path == "/" or path.count("/") == 1:
        return None if path == workspace and spares_workspace else "a root of the file system"
    if path == home or _HOMES.fullmatch(path):
        return None if path == workspace and spares_workspace else "a home"
    if is_inside(workspace, path):
        return None if path == workspace and spares_workspace else "the workspace, or what it lies in"
    if is_inside(home, path):
        return "what a home lies in"
    if posixpath.basename(path) == ".git":
        return "a repository's history (.git)"
    if not is_inside(path, workspace) and protected_reason(path, scene.policy) is not None:
        return "a part of the system"
    return None


def _paths(word: Word, scene: Scene) -> Iterator[str]:
    for candidate in where(word, scene.folders, scene.ground) or ():
        if not candidate.is_glob:
            yield "/" + posixpath.normpath(candidate.path).lstrip("/")
            real = scene.facts.real.get(candidate.path)
            if real is not None:
                yield real


def _is_device(path: str) -> bool:
    return path.startswith("/dev/") and _QUIET_DEVICES.fullmatch(path) is None


def _written(word: Word, scene: Scene) -> str | None:
    """Say why a file may not be written, or None."""
    for path in _paths(word, scene):
        if _is_device(path):
            return "it writes to a device"
        if _QUIET_DEVICES.fullmatch(path):
            continue
        why = protected_reason(path, scene.policy) or secret_reason(path, scene.policy)
        if why is not None:
            return f"this file must not be changed: {why}"
    return None


def bomb(root: Node) -> bool:
    """Whether a function calls itself in a pipeline or in the background: it would never stop growing."""
    return any(_is_bomb(node) for node in _functions(root))


def _functions(node: Node) -> Iterator[Compound]:
    match node:
        case Compound():
            if node.kind == "function":
                yield node
            for piece in node.pieces:
                if not isinstance(piece, (str, Word)):
                    yield from _functions(piece)
        case Pipeline(stages=nodes) | Sequence(items=nodes):
            for one in nodes:
                yield from _functions(one)
        case Command():
            for inner in node.inner:
                yield from _functions(inner)


def _is_bomb(function: Compound) -> bool:
    spreads = {"pipeline", "start of a pipeline", "background"}
    return any(
        visit.command.name == function.name and spreads & set(visit.context) for visit in visits(function)
    )


def crude_words(raw: str, home: str) -> Iterator[Command]:
    """Yield what looks like commands in a text that could not be read, quotes and all tricks removed."""
    plain = re.sub(r"\\\n", "", raw)
    plain = re.sub(r"\$?\{?\bHOME\b\}?", lambda _: home, plain)
    plain = re.sub(r"\$\{?IFS\}?", " ", re.sub(r"['\"\\]", "", plain))
    # What stands in braces may be a list of words.
    spread = re.sub(r"\{([^{}]*)\}", lambda found: " ; " + found[1].replace(",", " ") + " ; ", plain)
    chunks = re.split(r"[;&|()`\n{}]|\$\(", f"{plain}\n{spread}" if "{" in plain else plain)
    for chunk in list(filter(str.strip, chunks))[:_MOST_CHUNKS]:
        words = [home + word[1:] if word == "~" or word.startswith("~/") else word for word in chunk.split()]
        words = [re.sub(r"^\d?[<>]+.*", "", word) for word in words]
        kept = tuple(literal(word) for word in words if word)
        for start in range(min(len(kept), 8)):
            yield Command(kept[start : start + _MOST_WORDS])
        for target in re.findall(r">+[|&]?\s*(\S+)", chunk)[:8]:
            yield Command((), redirections=(Redirection(">", literal(target)),))
