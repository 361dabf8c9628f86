"""Match the words of a command against a rule pattern.

A wildcard never covers a word that leads out of the allowed paths, nor one whose value is known only
when it runs: the pattern must spell such a word out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ...kinds import CommandFacts
from ...lazy import regex
from ...paths import is_inside
from ...policy import Policy

__all__ = ["covers_words", "matches_words"]

_WILDCARD = regex(r"[*?\[]")
# A word that climbs ends up wherever it likes, so no wildcard vouches for it; `main..` is a range of git's.
_CLIMBS = regex(r"(?:^|[^\w.])\.\.(?:[/\\:,]|$)|^-\w+\.\.(?:[/\\]|$)|(?i:\bfile:/)")
# What a shell puts in the place of such a piece of a word is only known when it runs; a glob is looked up.
_OPEN = regex(r"⟨(?![*?\[~])")
_HOME, _NOWHERE = ("⟨~", "~/"), "/dev/null"
_MARKS = str.maketrans("", "", "⟨⟩")
# The value of a short option may follow it directly, or after others.
_ATTACHED = regex(r"-\w{1,3}(?=[/~⟨])")


def matches_words(argv: tuple[str, ...], words: list[str]) -> bool:
    """Whether each word matches its glob; a last `*` word takes any number of words, even none."""
    if words and words[-1] == "*":
        words = words[:-1]
        argv = argv[: len(words)] if len(argv) >= len(words) else argv
    return len(argv) == len(words) and all(map(fnmatchcase, argv, words))


def covers_words(argv: tuple[str, ...], words: list[str], facts: CommandFacts | None, policy: Policy) -> bool:
    """Whether each word matches its glob, and one that leads out, or is not known yet, is spelled out."""
    if not matches_words(argv, words):
        return False
    spelled = [*words, *[""] * len(argv)]
    pairs = zip(argv, spelled, strict=False)
    return all(_spells_out(wanted, word) for word, wanted in pairs if _leads_out(word, facts, policy))


def _spells_out(wanted: str, word: str) -> bool:
    """Whether a word of a pattern says where a word leads: all of it, or from the root of the disk on."""
    is_exact = not _is_glob(wanted) or (wanted.startswith("/") and not _CLIMBS.search(word))
    return is_exact and fnmatchcase(word, wanted)


def _is_glob(word: str) -> bool:
    """Whether a word of a pattern holds a wildcard; `[*]` is how a literal one is written."""
    return _WILDCARD.search(re.sub(r"\[[*?\[]\]", "", word)) is not None


def _leads_out(word: str, facts: CommandFacts | None, policy: Policy) -> bool:
    """Whether a word is, or may turn out to be, a path that leaves what may be used without a question."""
    if _CLIMBS.search(word) or _OPEN.search(word):
        return True
    allowed = (policy.workspace, *policy.allowed_paths)
    for text in _paths_in(word):
        if text.startswith(_HOME):
            return True
        places = [posixpath.normpath(posixpath.join(policy.workspace, text)), *_led_to(text, facts)]
        if text != _NOWHERE and not all(is_inside(place, *allowed) for place in places):
            return True
    return False


def _paths_in(word: str) -> Iterator[str]:
    """Yield what in a word a program may take for a path: all of it, and the value of an option."""
    attached = _ATTACHED.match(word)
    behind_letter = word[2:] if word.startswith("-") and not word.startswith("--") else ""
    for text in (word, word.partition("=")[2], word.rpartition("=")[2], behind_letter):
        yield text
        yield text.removeprefix("@")
    if attached is not None:
        yield word[attached.end() :]


def _led_to(text: str, facts: CommandFacts | None) -> Iterator[str]:
    """Yield where a path leads from each folder that a line goes to, and all that a pattern matches."""
    if facts is None or not text:
        return
    ending = text if text.startswith("/") else f"/{text}"
    paths = [path for path in facts.real if path.endswith(ending)]
    if "⟨" in text:
        ending = ending.translate(_MARKS)
        found = [paths for pattern, paths in facts.matches.items() if pattern.endswith(ending)]
        # A pattern that nobody looked up could match anything.
        several = [("/",) if matched is None else matched for matched in found] or [("/",)]
        paths = [path for matched in several for path in matched]
    yield from (facts.real.get(path, path) for path in paths)
