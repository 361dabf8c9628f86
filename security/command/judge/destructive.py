"""Deny commands that destroy what no task in a workspace has to destroy, even for the person.

Protected are roots (`/`, the system's folders, homes, the workspace itself, `.git`), devices, files the
system or a shell obeys, and the machine as such, in any spelling. Denied is what the words say plainly; what
only running a line tells is for the run: on trial nothing of it is lost, and elsewhere a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from ...lazy import dataclass, regex
from ...paths import is_inside, protected_reason, secret_reason
from ..expand import Placed, commands_of, where
from ..programs import find_starts, find_terms, groups_of, table, without_start
from ..syntax import Node, Word
from .paths import Scene
from .root import HISTORY, TEMPORARY, forms, plainer, root_of, spellings

__all__ = ["destruction"]

_TABLE = "destruction.toml"
_Loss = tuple[str, str]
"""What is lost, as it is written, and why that is a no."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A group of `[[roots]]` in `destruction.toml`, with its defaults."""

    does: str
    options: tuple[str, ...] = ()
    takes: str = ""
    spares: bool = False
    spares_git: bool = False


_TAKEN = {"": slice(None), "last": slice(-1, None), "others": slice(None, -1)}


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[_Rule]]:
    found: dict[str, list[_Rule]] = {}
    for program, said in groups_of(table(_TABLE)["roots"]):
        found.setdefault(program, []).append(_Rule(**said))
    return found


_OWNERS = frozenset("chmod chown chgrp chattr setfacl chcon".split())
_KILLS = regex(r"-(?:9|KILL|SIGKILL|s(?:9|KILL|SIGKILL))|9|KILL|SIGKILL|--signal=(?:9|KILL|SIGKILL)")
_FORMATTERS = regex(
    r"mkfs(?:\..*)?|mke2fs|mkswap|wipefs|blkdiscard|sfdisk|mkdosfs|mkntfs|newfs(?:_.*)?|diskutil"
    r"|(?:lv|vg|pv)remove"
)
_ON_DEVICES = frozenset("fdisk cfdisk tune2fs losetup sg_format".split())
_REMOVERS = frozenset("rm unlink shred srm".split())
_SEARCHES = frozenset({"find", "gfind"})
# A test of a search that tells something of a name, or finds only what holds nothing.
_NARROWING = frozenset("-name -iname -path -ipath -wholename -iwholename -regex -iregex -empty".split())
_IN_PLACE = regex(r"-[nErsuz]*i|--in")
_WRITERS = frozenset({"tee", "truncate", "shred", "rm", "unlink", "wipe", "srm", "sponge"})
_COPIERS = frozenset({"cp", "mv", "install", "ln", "rsync", "scp"})
_QUIET_DEVICES = regex(
    r"/dev/(?:null|zero|full|stdout|stderr|stdin|tty|fd/\d+|shm(?:/.*)?|pts/\d+|tcp/.*|udp/.*)"
)
_GIT_LOCK = regex(r".*/\.git/(?!hooks/).*\.lock", re.DOTALL)


def destruction(at: Placed, scene: Scene) -> _Loss | None:
    """Return what a command would destroy and why that is a no, or None."""
    for redirection in at.command.redirections:
        if redirection.writes and (why := _written(redirection.target, scene)) is not None:
            return redirection.target.text, why
    if not at.command.words:
        return None
    program, words = at.command.program, at.command.words[1:]
    if program in _SEARCHES:
        return _searched(words, at.command.inner, scene)
    if (why := _stops(program, [word.text for word in words])) is not None:
        return program, why
    return _disks(program, words, scene) or _writers(program, words, scene) or _roots(program, words, scene)


def _roots(program: str, words: tuple[Word, ...], scene: Scene) -> _Loss | None:
    """Find a root that is lost among a program's operands."""
    # The word behind `-C` is the folder it works in.
    behind = {id(word) for before, word in pairwise(words) if before.text in {"-C", "--directory"}}
    operands = [word for word in words if not word.text.startswith("-") and id(word) not in behind]
    for rule in _rules().get(program, ()):
        if all(_has(words, option) for option in rule.options):
            for word in operands[_TAKEN[rule.takes]]:
                why = root_of(word, scene, spares_workspace=rule.spares)
                if why is not None and not (rule.spares_git and why == HISTORY):
                    return word.text, f"{rule.does} {why}"
    return None


def _has(words: tuple[Word, ...], option: str) -> bool:
    """Whether a word in front of `--` matches a pattern."""
    texts = [word.text for word in words]
    ends = texts.index("--") if "--" in texts else len(texts)
    return any(re.fullmatch(option, text, re.DOTALL) for text in texts[:ends])


def _stops(program: str, texts: list[str]) -> str | None:
    """Say how a command stops the machine or all that runs on it, or None."""
    if program == "kill" and len(texts) > 1:
        ends_first = any(map(_KILLS.fullmatch, texts)) and {"1", "-1"} & set(texts[1:])
        return "it ends every program there is" if ends_first or texts[-1] == "-1" else None
    stopping = table(_TABLE)["machine"].get(program)
    if stopping is None or (stopping and set(stopping.split()).isdisjoint(texts)):
        return None
    return "it stops the machine"


def _disks(program: str, words: tuple[Word, ...], scene: Scene) -> _Loss | None:
    operands = [word for word in words if not word.text.startswith("-")]
    why = "it writes to a disk past its file system"
    if _FORMATTERS.fullmatch(program) and operands:
        return operands[-1].text, why
    only_lists = any(word.text in {"-l", "--list", "-a", "--all", "-x"} for word in words)
    if program in _ON_DEVICES and not only_lists:
        target = next((word for word in operands if any(map(_is_device, _paths(word, scene)))), None)
        if target is not None:
            return target.text, why
    if not set(table(_TABLE)["disks"].get(program, "").split()).isdisjoint(word.text for word in words):
        return program, why
    if program == "dd":
        for word in words:
            if word.text.startswith("of="):
                target = without_start(word, len("of="))
                if (reason := _written(target, scene)) is not None:
                    return target.text, reason
    return None


def _writers(program: str, words: tuple[Word, ...], scene: Scene) -> _Loss | None:
    operands = [word for word in words if not word.text.startswith("-")]
    in_place = program in {"sed", "gsed"} and any(_IN_PLACE.match(word.text) for word in words)
    if in_place or program in _WRITERS:
        targets = operands
    elif program in _COPIERS:
        targets = operands[-1:] if len(operands) > 1 else []
    else:
        return None
    for word in targets:
        for path in _paths(word, scene):
            if _is_device(path):
                return word.text, "it writes to a device"
            if program in _COPIERS or _QUIET_DEVICES.fullmatch(path):
                continue
            if program in {"rm", "unlink"} and word.is_literal and _GIT_LOCK.fullmatch(path):
                # It is asked about: git itself says to remove the lock of one that died.
                continue
            why = protected_reason(path, scene.policy)
            if why is None and not is_inside(path, scene.policy.workspace):
                why = secret_reason(path, scene.policy)
            if why is not None:
                return word.text, f"this file must not be changed: {why}"
    return None


def _searched(words: tuple[Word, ...], inner: tuple[Node, ...], scene: Scene) -> _Loss | None:
    """Deny a search that removes what it finds in a root, or changes its owners.

    In the workspace, a home or a temporary folder it is plain only where no test tells anything of a name.
    """
    terms = tuple(find_terms(words))
    removes = any(map(_removes(inner), terms))
    if not removes and not any(_acts_on_given(one, _OWNERS) for one in inner):
        return None
    own_places = TEMPORARY | {scene.policy.workspace, scene.policy.home}
    for word in find_starts(words):
        found = where(plainer(word), scene.folders, scene.policy) or ()
        own = any(path in own_places for one in found for path in spellings(one, scene))
        if own and removes and any(map(_is_telling, terms)):
            continue
        why = root_of(word, scene, spares_workspace=not removes)
        if why is not None:
            return word.text, f"it removes {why}" if removes else f"it changes who may use {why}"
    return None


def _removes(inner: tuple[Node, ...]) -> Callable[[tuple[Word, ...]], bool]:
    """Return what tells whether a term of a search removes what is found; `inner` is what it runs."""
    runs_remover = any(_acts_on_given(one, _REMOVERS) for one in inner)
    return lambda term: (
        term[0].text == "-delete" or (runs_remover and term[0].text.startswith(("-exec", "-ok")))
    )


def _is_telling(term: tuple[Word, ...]) -> bool:
    name = term[0].text
    return name == "-empty" or (
        name in _NARROWING and any(re.search(r"[^\W_]", word.text) is not None for word in term[1:])
    )


def _acts_on_given(node: Node, programs: frozenset[str]) -> bool:
    """Whether one of these programs runs somewhere in a tree on what is not known before."""
    return any(
        one.program in programs and not all(word.is_literal for word in one.words)
        for one in commands_of(node)
    )


def _paths(word: Word, scene: Scene) -> Iterator[str]:
    for candidate in where(word, scene.folders, scene.policy) or ():
        if not candidate.is_glob:
            yield from forms(candidate.path, scene)


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
