"""Does a command make what nobody can do without useless in another way than by removing it?

Taking all rights away, moving it to where nothing is kept, packing it with its removal, cleaning a folder
above.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from ..programs import git_folder, without_globals
from ..syntax import Word, literal

__all__ = ["RootOf", "wreck"]

RootOf = Callable[[Word, bool], "str | None"]
"""Says which root a word means, or None; with True the workspace itself is spared."""

# What the group and others lose is nobody's loss.
_NO_RIGHTS = re.compile(r"0+|(?:[go]*[ua][ugoa]*)?(?:-[wxX]*r[rwxX]*|=)(?:,[ugoa]*(?:-[rwxX]*|=))*")
_NOWHERE = literal("/dev/null")
_KILLS = re.compile(r"-(?:9|KILL|SIGKILL|s(?:9|KILL|SIGKILL))|9|KILL|SIGKILL|--signal=(?:9|KILL|SIGKILL)")
_HISTORY = re.compile(r"(?:(?:.*/)?\.git)/*")


def wreck(program: str, words: tuple[Word, ...], root: RootOf) -> tuple[str, str] | None:
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
