"""Commands that destroy what no task in a workspace needs to destroy: denied, whoever asks.

Protected are roots (`/`, the system's folders, homes, the workspace itself, `.git`), devices, files the
system or a shell obeys, and the machine as such, in any spelling. A command may also destroy without
deleting: by chmod, mv, rsync, kill, or by packing and removing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from ...paths import is_inside, protected_places, protected_reason, secret_places, secret_reason
from ..expand import Candidate, Placed, visits, where
from ..programs import (
    EXECUTING,
    Branch,
    branches,
    edited_by_sed,
    find_starts,
    find_terms,
    git_folder,
    is_hit,
    lines_of,
    removing_what_it_prints,
    without_globals,
)
from ..syntax import Command, Node, Part, PartKind, PipeNode, Word, literal
from .paths import Scene
from .root import SYSTEM_ROOTS, TEMPORARY, forms, plainer, root_of, spellings, why_root

__all__ = [
    "RootOf",
    "destroyed_by_unknown",
    "destruction",
    "may_destroy",
    "piped_removals",
    "ruined_by",
    "unsure_destruction",
]


RootOf = Callable[[Word, bool], "str | None"]
"""Says which root a word means, or None; with True the workspace itself is spared."""

# What the group and others lose is nobody's loss.
_NO_RIGHTS = re.compile(r"0+|(?:[go]*[ua][ugoa]*)?(?:-[wxX]*r[rwxX]*|=)(?:,[ugoa]*(?:-[rwxX]*|=))*")
_NOWHERE = literal("/dev/null")
_KILLS = re.compile(r"-(?:9|KILL|SIGKILL|s(?:9|KILL|SIGKILL))|9|KILL|SIGKILL|--signal=(?:9|KILL|SIGKILL)")
_HISTORY = re.compile(r"(?:(?:.*/)?\.git)/*")


def ruined_by(program: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    """Return what a command ruins and why that is a no; the words are those behind its name."""
    rule = _RULES.get(program)
    return rule(program, words, root) if rule is not None else None


def _any_root(words: tuple[Word, ...], root: RootOf, why: str, *, spares: bool) -> tuple[str, str] | None:
    for word in words:
        found = None if word.text.startswith("-") else root(word, spares)
        if found is not None:
            return word.text, f"{why} {found}"
    return None


def _rights(_: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    texts = [word.text for word in words]
    recursive = any(re.match(r"-[a-zA-Z]*R|--rec", text) for text in texts)
    modes = [at for at, text in enumerate(texts) if _NO_RIGHTS.fullmatch(text)]
    if not recursive or not modes:
        return None
    others = tuple(word for at, word in enumerate(words) if at != modes[0])
    return _any_root(others, root, "it takes away all rights to", spares=False)


def _replaced(program: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    operands = tuple(word for word in words if not word.text.startswith("-"))
    if len(operands) > 1 and program == "mv" and operands[-1] == _NOWHERE:
        return _any_root(operands[:-1], root, "it moves away", spares=False)
    forced = any(re.match(r"-[a-zA-Z]*f|--fo", word.text) for word in words)
    empties = operands[:1] == (_NOWHERE,) or (program == "ln" and forced)
    if len(operands) > 1 and empties and _HISTORY.fullmatch(operands[-1].text):
        return operands[-1].text, "it replaces a repository's history (.git)"
    return None


def _packed(_: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    if not any(word.text.startswith("--remove") for word in words):
        return None
    packed = tuple(word for before, word in pairwise(words) if before.text not in {"-C", "--directory"})
    return _any_root(packed, root, "it packs and removes", spares=False)


def _moved(program: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    """`zip` and `rsync` remove what they packed or copied if they are told so; where it went to stays."""
    option = r"-[a-zA-Z]*m|--move" if program == "zip" else r"--remove-s"
    if not any(re.match(option, word.text) for word in words):
        return None
    return _any_root(words if program == "zip" else words[:-1], root, "it removes", spares=False)


def _cleaned(_: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    texts = without_globals(words)
    if texts[:1] != ("clean",) or not any(re.match(r"-[a-z]*f|--fo", text) for text in texts):
        return None
    if any(re.match(r"-[a-z]*n|--dry", text) for text in texts):
        return None
    operands = tuple(word for word in words if word.text in texts[1:])
    folders = git_folder((literal("git"), *words))
    return _any_root((*operands, *folders), root, "it removes what is not kept in", spares=True)


def _killed(program: str, words: tuple[Word, ...], _: RootOf) -> tuple[str, str] | None:
    texts = [word.text for word in words]
    if any(map(_KILLS.fullmatch, texts)) and {"1", "-1"} & set(texts[1:]):
        return program, "it ends the first program, and all others with it"
    return None


def _folders(_: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
    return _any_root(words, root, "it removes", spares=True)


_RULES = {
    "chmod": _rights,
    "cp": _replaced,
    "mv": _replaced,
    "ln": _replaced,
    "install": _replaced,
    "tar": _packed,
    "gtar": _packed,
    "bsdtar": _packed,
    "zip": _moved,
    "rsync": _moved,
    "git": _cleaned,
    "kill": _killed,
    "rmdir": _folders,
}


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
_ON_DEVICES = frozenset("fdisk cfdisk tune2fs losetup sg_format".split())
_OWNERS = frozenset({"chmod", "chown", "chgrp", "chattr", "setfacl", "chcon"})
_REMOVERS = frozenset("rm unlink shred srm".split())
_SEARCHES = frozenset({"find", "gfind"})
# What a search prints comes out of these as it went in, if perhaps less of it.
_PASSING_ON = frozenset("cat sort uniq tac tee head tail shuf".split())
_FOUND = Word("⟨each file found⟩", (Part(PartKind.GIVEN, "each file found"),))
_WRITERS = frozenset({"tee", "truncate", "shred", "rm", "unlink", "wipe", "srm", "sponge"})
_COPIERS = frozenset({"cp", "mv", "install", "ln", "rsync", "scp"})
_QUIET_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|stdout|stderr|stdin|tty|fd/\d+|shm(?:/.*)?|pts/\d+|tcp/.*|udp/.*)"
)
_GIT_LOCK = re.compile(r".*/\.git/(?!hooks/).*\.lock", re.DOTALL)
# Without any of these git takes a folder for no repository.
_OF_GIT = (".git/objects", ".git/refs", ".git/HEAD")
_MOST_WORDS = 64
_MOST_WRAPPED = 4
_MOST_TARGETS = 16
_MOST_STARTS = 8
_WRAPPED = frozenset("rm chmod chown chgrp shred find dd wipefs blkdiscard".split())


def may_destroy(program: str) -> bool:
    """Whether any rule here speaks of a program."""
    return program in _DESTROYERS or _FORMATTERS.fullmatch(program) is not None


def destruction(at: Placed, scene: Scene) -> tuple[str, str] | None:
    """Return what a command would destroy and why that is a no, or None."""
    for redirection in at.command.redirections:
        if redirection.writes and (why := _written(redirection.target, scene)) is not None:
            return redirection.target.text, why
    words = at.command.words
    if not words:
        return None
    program = at.command.program
    if program in _SEARCHES:
        return _searched(words[1:], at.command.inner, scene)
    ruined = ruined_by(program, words[1:], lambda word, spares: root_of(word, scene, spares_workspace=spares))
    if ruined is not None or not may_destroy(program):
        return ruined
    return next((found for rule in _DESTRUCTION_RULES if (found := rule(program, words[1:], scene))), None)


def destroyed_by_unknown(at: Placed, scene: Scene) -> tuple[str, str] | None:
    """Find what would destroy where a program nobody knows to run others has it among its words.

    Only targets spelled from the root or a home count: `docker rm` and `git rm` are none of these.
    """
    words = at.command.words
    if at.command.inner or at.command.program in lines_of("programs.toml") or at.command.program == "git":
        return None
    names = [word.text.rpartition("/")[2] if word.is_literal else "" for word in words[:_MOST_WORDS]]
    places = [place for place, name in enumerate(names) if place and name in _WRAPPED]
    for place in places[:_MOST_WRAPPED]:
        for rule in (_disks, _removals, _owners):
            found = rule(names[place], words[place + 1 : place + _MOST_TARGETS], scene)
            if found is not None and found[0].startswith(("/", "~", "⟨~", "⟨$HOME")):
                return found
    return None


def piped_removals(parts: list[Node]) -> Iterator[tuple[Command, Command]]:
    """Yield a search, and as what it would be written if it removed itself what it hands to `xargs rm`."""
    for node in parts:
        if not isinstance(node, PipeNode):
            continue
        before: Command | None = None
        for stage in node.stages:
            if not isinstance(stage, Command):
                before = None
            elif stage.program in _SEARCHES:
                before = stage
            elif before is not None and stage.program == "xargs":
                if any(_acts_on_given(inner, _REMOVERS) for inner in stage.inner):
                    words = (before.words[0], *removing_what_it_prints(before.words[1:]))
                    yield before, replace(before, words=words)
                before = None
            elif stage.program not in _PASSING_ON:
                before = None


def unsure_destruction(at: Placed) -> str | None:
    """Say why only a person may judge a removal whose target is not known, or None."""
    program, words = at.command.program, at.command.words[1:]
    searches = program in _SEARCHES
    deletes = searches and any(term[0].text == "-delete" for term in find_terms(words))
    removes = deletes if searches else _is_recursive(words)
    if not removes or not (searches or program in {"rm", "shred"} | _OWNERS):
        return None
    unknown = {PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION, PartKind.ARITHMETIC}
    found = any(
        part.kind in unknown or (part is word.parts[0] and (part.kind is PartKind.GIVEN or part.text == "~-"))
        for word in words
        for part in word.parts
    )
    targets = find_starts(words) if searches else [word for word in words if not word.text.startswith("-")]
    nowhere = at.folders is None and any(not word.text.startswith(("/", "⟨~")) for word in targets)
    return "what is removed or changed is only known when it runs" if found or nowhere else None


def _machine(program: str, words: tuple[Word, ...], _: Scene) -> tuple[str, str] | None:
    texts = {word.text for word in words}
    why = "it stops the machine"
    if program in _POWER or (program in {"systemctl", "loginctl"} and texts & _POWER_STATES):
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
    only_lists = any(word.text in {"-l", "--list", "-a", "--all", "-x"} for word in words)
    if program in _ON_DEVICES and not only_lists:
        target = next((word for word in operands if any(map(_is_device, _paths(word, scene)))), None)
        if target is not None:
            return target.text, why
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
    elif program in {"sed", "gsed"}:
        targets = list(edited_by_sed(words))
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


def _removals(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    if program in _SEARCHES:
        return _searched(words, (), scene)
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
        if program in _REMOVERS and _is_found(word, scene):
            continue
        why = root_of(word, scene, spares_workspace=program == "mv")
        if why is not None:
            return word.text, f"it removes {why}"
    return None


def _searched(words: tuple[Word, ...], inner: tuple[Node, ...], scene: Scene) -> tuple[str, str] | None:
    """Hold where a search looks against what it does to what its tests let through there."""
    terms = tuple(find_terms(words))
    running = [term for term in terms if term[0].text in EXECUTING and len(term) > 1]
    # What was not taken apart is known by its first word.
    runs = inner if len(inner) == len(running) else tuple(Command((*term[1:], _FOUND)) for term in running)
    run_by = {id(term): one for term, one in zip(running, runs, strict=True)}

    def removes(term: tuple[Word, ...]) -> bool:
        return term[0].text == "-delete" or (
            id(term) in run_by and _acts_on_given(run_by[id(term)], _REMOVERS)
        )

    def changes_owners(term: tuple[Word, ...]) -> bool:
        return id(term) in run_by and _acts_on_given(run_by[id(term)], _OWNERS)

    removed_by, changed_by = branches(terms, removes), branches(terms, changes_owners)
    least = _least_depth(terms)
    starts = tuple(_all_starts(words, terms))
    parts_of_git = () if _spares_git(terms) else _OF_GIT
    is_wide = () in removed_by or len(starts) > _MOST_STARTS
    for word in starts if removed_by else ():
        why = root_of(word, scene, spares_workspace=False) if is_wide else None
        if why is not None:
            return word.text, f"it removes {why}; no test says of which names"
        why = None if is_wide else _narrowed(word, removed_by, least, scene, parts_of_git)
        if why is not None:
            return word.text, f"it removes {why}"
    for word in starts if () in changed_by else ():
        why = root_of(word, scene, spares_workspace=True)
        if why is not None and ".git" not in why:
            return word.text, f"it changes who may use {why}"
    return None


def _is_found(word: Word, scene: Scene) -> bool:
    """Whether a word is what a search finds where it may remove by name; the search itself is judged."""
    found = where(word, scene.folders, scene.ground) or (Candidate("/"),)
    return all(one.below and _why_searched(posixpath.normpath(one.path), scene) is None for one in found)


def _acts_on_given(node: Node, programs: frozenset[str]) -> bool:
    """Whether one of these programs runs somewhere in a tree on what is not known before."""
    commands = (visit.command for visit in visits(node))
    return any(one.program in programs and not all(word.is_literal for word in one.words) for one in commands)


def _all_starts(words: tuple[Word, ...], terms: tuple[tuple[Word, ...], ...]) -> Iterator[Word]:
    """Yield where a search begins; a list of starts in a file could hold any, the root too."""
    yield from dict.fromkeys(find_starts(words))
    if any(term[0].text in {"-files0-from", "-D", "-f"} for term in terms):
        yield literal("/")


def _least_depth(terms: tuple[tuple[Word, ...], ...]) -> int:
    """Return how far below its starts a search begins to act."""
    given = [term[1].text for term in terms if term[0].text == "-mindepth" and len(term) > 1]
    return min((int(text) if text.isdecimal() else 0 for text in given), default=0)


def _spares_git(terms: tuple[tuple[Word, ...], ...]) -> bool:
    """Whether a search leaves a folder `.git` out, by a prune or a test that is turned round."""
    names = [term[0].text for term in terms]
    is_named = any(".git" in word.text for term in terms for word in term[1:])
    return is_named and not {"-prune", "!", "-not"}.isdisjoint(names)


def _narrowed(
    word: Word, ways: tuple[Branch, ...], least: int, scene: Scene, parts_of_git: tuple[str, ...]
) -> str | None:
    """Say what must stay that a search removes though its tests narrow what it finds, or None."""
    if word.parts and word.parts[0].kind is PartKind.TILDE and word.parts[0].text not in {"~", "~+", "~-"}:
        return "somebody's home"
    for candidate in where(plainer(word), scene.folders, scene.ground) or ():
        for path in spellings(candidate, scene):
            typed = word.text if word.is_literal else candidate.path
            why = _why_searched(path, scene) or _passing(
                path, typed.rstrip("/") or "/", ways, least, scene, parts_of_git
            )
            if why is not None:
                return why
    return None


def _why_searched(path: str, scene: Scene) -> str | None:
    """Say why nothing may be removed by its name below a folder, or None."""
    workspace, home = scene.policy.workspace, scene.policy.home
    is_above = workspace.startswith(f"{path}/") and path not in SYSTEM_ROOTS
    is_own = is_above or path in {workspace, home, *TEMPORARY}
    return None if is_own else why_root(path, scene, spares_workspace=True)


def _passing(
    path: str, typed: str, ways: tuple[Branch, ...], least: int, scene: Scene, parts_of_git: tuple[str, ...]
) -> str | None:
    """Say what must stay below a folder and would pass the tests of a search that begins there, or None."""
    policy = scene.policy
    of_git = (posixpath.join(policy.workspace, part) for part in parts_of_git)
    kept = (*protected_places(policy), *secret_places(policy), *of_git)
    reached: dict[str, str] = {}
    ends: dict[str, str] = {}
    for place in (*kept, policy.workspace, policy.home):
        if is_inside(place, path):
            parts = list(filter(None, place[len(path) :].split("/")))
            paths = [posixpath.join(typed, *parts[:depth]) for depth in range(least, len(parts) + 1)]
            reached.update((one, place) for one in paths if one not in reached)
            ends.update((one, place) for one in paths[-1:] if place in kept)
    hits = (place for way in ways for one, place in reached.items() if is_hit(way, one))
    inside = (place for way in ways for one, place in ends.items() if is_hit(way, one, below=True))
    found = next(hits, None) or next(inside, None)
    return None if found is None else f"{found}, which must stay"


def _owners(program: str, words: tuple[Word, ...], scene: Scene) -> tuple[str, str] | None:
    if program not in _OWNERS or not _is_recursive(words):
        return None
    for word in words:
        why = None if word.text.startswith("-") else root_of(word, scene, spares_workspace=True)
        if why is not None and "git" not in why:
            return word.text, f"it changes who may use {why}"
    return None


# Whatever is not among these, no rule below speaks of.
_DESTROYERS = (
    _POWER
    | _MANY
    | _OWNERS
    | _WRITERS
    | _COPIERS
    | _ON_DEVICES
    | frozenset(_DISK_VERBS)
    | frozenset("systemctl loginctl init telinit kill dd find gfind rmtree trash sed gsed".split())
)

_Rule = Callable[[str, "tuple[Word, ...]", Scene], "tuple[str, str] | None"]
_DESTRUCTION_RULES: tuple[_Rule, ...] = (_machine, _disks, _writers, _removals, _owners)


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


def _paths(word: Word, scene: Scene) -> Iterator[str]:
    for candidate in where(word, scene.folders, scene.ground) or ():
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
