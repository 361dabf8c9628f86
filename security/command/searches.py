"""What do `find` and `fd` run on what they find, and do they only look?"""

from __future__ import annotations

from .nouns import Part, PartKind, Word, literal

__all__ = ["FOUND", "find_only_looks", "find_starts", "search_runs"]

FOUND = Word("⟨each file found⟩", (Part(PartKind.GIVEN, "each file found"),))
"""What stands where a search puts the name of a file."""

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_EXECUTING = ("-x", "-X", "--exec", "--exec-batch")

# Tests and actions that look at names and metadata, and print them; by how many words follow.
_LOOKING = {
    0: frozenset(
        "-print -print0 -ls -empty -executable -readable -writable -nouser -nogroup -prune -quit -depth -xdev -mount "
        "-noleaf -daystart -true -false -not ! ( ) -a -and -o -or , -ignore_readdir_race -noignore_readdir_race "
        "-nowarn -warn".split()
    ),
    1: frozenset(
        "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname -type -xtype -size "
        "-mtime -atime -ctime -mmin -amin -cmin -used -perm -user -group -uid -gid -links -inum -fstype -maxdepth "
        "-mindepth -printf -newer -anewer -cnewer -newermt -newerat -newerct -samefile".split()
    ),
}
_START_OPTIONS = frozenset({"-H", "-P", "-O0", "-O1", "-O2", "-O3"})


def search_runs(words: tuple[Word, ...]) -> tuple[tuple[tuple[Word, ...], ...], str]:
    """Return the argument vectors a search runs, and why there may be others ("" if there are not)."""
    if words[0].text.rpartition("/")[2].endswith("find"):
        return _find_runs(words[1:]), ""
    for index, word in enumerate(words):
        for option in _FD_EXECUTING:
            if word.text == option or (option.startswith("--") and word.text.startswith(f"{option}=")):
                return (_with_found(words[index + 1 :]),) if words[index + 1 :] else (), ""
        if word.text[:2] in {"-x", "-X"} or (not word.text.startswith("--") and word.text.startswith("-") and "x" in word.text.lower()):
            return (), "an option of fd starts a program"
    return (), ""


def _find_runs(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], ...]:
    found: list[tuple[Word, ...]] = []
    at = 0
    while at < len(words):
        if words[at].text in _EXECUTING:
            end = at + 1
            while end < len(words) and not _ends(words, end):
                end += 1
            found.append(_with_found(words[at + 1 : end]))
            at = end
        at += 1
    return tuple(run for run in found if run)


def _ends(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and "{}" in words[at - 1].text)


def _with_found(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Put what is found where `{}` stands, even inside a word."""
    return tuple(FOUND if "{}" in word.text else word for word in words)


def find_starts(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return where `find` begins to look; the words are those behind its name."""
    starts: list[Word] = []
    for word in words:
        if word.is_literal and (word.text[:1] == "-" or word.text in {"!", "(", ")", ","}):
            if starts or word.text not in _START_OPTIONS | {"-L"}:
                break
            continue
        starts.append(word)
    return tuple(starts) or (literal("."),)


def find_only_looks(words: tuple[Word, ...]) -> bool:
    """Whether `find` runs, deletes and writes nothing and follows no links; words are those behind its name."""
    at = len([word for word in words if word in find_starts(words) or word.text in _START_OPTIONS])
    while at < len(words):
        word = words[at]
        count = next((number for number, names in _LOOKING.items() if word.text in names), None)
        if count is None or not word.is_literal or at + count >= len(words) + (count == 0):
            return False
        if any(not follower.is_literal for follower in words[at + 1 : at + 1 + count]):
            return False
        at += count + 1
    return True
