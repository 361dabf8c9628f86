"""What do `find` and `fd` run on what they find, and do they only look?"""

from __future__ import annotations

from itertools import pairwise

from .nouns import Part, PartKind, Word, literal, marked

__all__ = ["PLAIN", "find_only_looks", "find_starts", "search_runs"]

PLAIN = "each plain file found"
"""What stands for files that a search knows to be no links."""

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_EXECUTING = ("-x", "-X", "--exec", "--exec-batch")

# Tests and actions that look at names and metadata, and print them; by how many words follow.
_LOOKING = {
    0: frozenset(
        "-print -print0 -ls -empty -executable -readable -writable -nouser -nogroup -prune -quit -depth "
        "-xdev -mount "
        "-noleaf -daystart -true -false -not ! ( ) -a -and -o -or , -ignore_readdir_race "
        "-noignore_readdir_race "
        "-nowarn -warn".split()
    ),
    1: frozenset(
        "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname "
        "-type -xtype -size "
        "-mtime -atime -ctime -mmin -amin -cmin -used -perm -user -group -uid -gid -links -inum -fstype "
        "-maxdepth "
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
                found = _found((literal("."),), is_plain=False)
                return (_with_found(words[index + 1 :], found),) if words[index + 1 :] else (), ""
        if word.text[:2] in {"-x", "-X"} or (
            not word.text.startswith("--") and word.text.startswith("-") and "x" in word.text.lower()
        ):
            return (), "an option of fd starts a program"
    return (), ""


def _find_runs(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], ...]:
    runs: list[tuple[Word, ...]] = []
    found = _found(find_starts(words), is_plain=_finds_plain_files(words))
    at = 0
    while at < len(words):
        if words[at].text in _EXECUTING:
            end = at + 1
            while end < len(words) and not _ends(words, end):
                end += 1
            runs.append(_with_found(words[at + 1 : end], found))
            at = end
        at += 1
    return tuple(run for run in runs if run)


def _ends(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and "{}" in words[at - 1].text)


def _with_found(words: tuple[Word, ...], found: Word) -> tuple[Word, ...]:
    """Put what is found where `{}` stands, even inside a word."""
    return tuple(found if "{}" in word.text else word for word in words)


def _found(starts: tuple[Word, ...], *, is_plain: bool) -> Word:
    """Return the word that stands for what is found: something below the start, where there is only one."""
    given = Part(PartKind.GIVEN, PLAIN if is_plain else "each file found")
    if len(starts) != 1 or starts[0].text.startswith("-"):
        return Word(marked((given,)), (given,))
    start = starts[0]
    parts = (*(start.parts or (Part(PartKind.LITERAL, start.text),)), Part(PartKind.LITERAL, "/"), given)
    return Word(marked(parts), parts)


def _finds_plain_files(words: tuple[Word, ...]) -> bool:
    """Whether no file found is a link: `-type f` holds for all, and links are not followed."""
    texts = [word.text for word in words]
    if {"-o", "-or", ",", "!", "-not", "(", "-L", "-H", "-follow"} & set(texts):
        return False
    return any(pair == ("-type", "f") for pair in pairwise(texts))


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
    """Whether `find` deletes and writes nothing and follows no links; words are those behind its name."""
    at = 0
    while at < len(words) and (
        words[at].text in _START_OPTIONS or not words[at].text.startswith(("-", "!", "("))
    ):
        at += 1
    while at < len(words):
        word = words[at]
        if word.text in {"-exec", "-execdir"}:
            # What it runs is a command of its own, and judged as such.
            while at < len(words) and not _ends(words, at):
                at += 1
            at += 1
            continue
        count = next((number for number, names in _LOOKING.items() if word.text in names), None)
        if count is None or not word.is_literal or at + count >= len(words) + (count == 0):
            return False
        if any(not follower.is_literal for follower in words[at + 1 : at + 1 + count]):
            return False
        at += count + 1
    return True
