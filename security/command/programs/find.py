"""Read the expressions of `find` and `fd`: where they look, what they run, and whether they only look."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..syntax import Part, PartKind, Word, literal, marked

__all__ = [
    "EXECUTING",
    "PLAIN",
    "find_only_looks",
    "find_starts",
    "find_terms",
    "found_name",
    "removing_what_it_prints",
    "search_runs",
]

PLAIN = "each plain file found"
"""What stands for files that a search knows to be no links."""

_NAMED = " named "
_MARK = "{}"
# A set of characters and an escape mean one thing to `find`, and another to who compares names here.
_PLAIN_PATTERN = re.compile(r"[^\[\\]+")
_PAIR = 2

EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
"""Actions of `find` that run a program."""

_PRINTING = frozenset("-print -print0 -printf -ls".split())
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
        return _find_runs(words[1:])
    for index, word in enumerate(words):
        for option in _FD_EXECUTING:
            if word.text == option or (option.startswith("--") and word.text.startswith(f"{option}=")):
                found = _found((literal("."),), [])
                return (_with_found(words[index + 1 :], found),) if words[index + 1 :] else (), ""
        if word.text[:2] in {"-x", "-X"} or (
            not word.text.startswith("--") and word.text.startswith("-") and "x" in word.text.lower()
        ):
            return (), "an option of fd starts a program"
    return (), ""


def _find_runs(words: tuple[Word, ...]) -> tuple[tuple[tuple[Word, ...], ...], str]:
    runs: list[tuple[Word, ...]] = []
    starts = find_starts(words)
    tests: list[tuple[Word, ...]] = []
    for term in find_terms(words):
        if term[0].text in EXECUTING:
            # Only a test in front of an action holds for what the action is given.
            runs.append(_with_found(term[1:], _found(starts, tests)))
        tests.append(term)
    # What the shell puts there may be the end of what is run, and an action of its own behind it.
    is_open = bool(runs) and any(not word.is_literal for word in words[_expression_at(words) :])
    return tuple(run for run in runs if run), "what find runs is only known when it runs" if is_open else ""


def find_terms(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield each test, operator and action of `find` with its values; what is not known has none."""
    at = _expression_at(words)
    while at < len(words):
        end = at + 1
        if words[at].text in EXECUTING:
            while end < len(words) and not _ends(words, end):
                end += 1
            yield words[at:end]
            at = end + 1
            continue
        end += words[at].text in _LOOKING[1]
        yield words[at:end]
        at = end


def _expression_at(words: tuple[Word, ...]) -> int:
    """Return where the starts end and the tests and actions of `find` begin."""
    at = 0
    while at < len(words) and (
        words[at].text in _START_OPTIONS | {"-L"} or not words[at].text.startswith(("-", "!", "("))
    ):
        at += 1
    return at


def _ends(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _with_found(words: tuple[Word, ...], found: Word) -> tuple[Word, ...]:
    """Put what is found where `{}` stands, even inside a word."""
    return tuple(_filled(word, found) if _MARK in word.text else word for word in words)


def _filled(word: Word, found: Word) -> Word:
    """Return a word around what is found; `{}/../x` is another file, which nobody can tell before."""
    head, *tails = word.text.split(_MARK)
    is_all = not head and tails == [""]
    if is_all or not word.is_literal or found.parts[0].kind is PartKind.GIVEN:
        return found
    parts = [Part(PartKind.LITERAL, head)] if head else []
    for tail in tails:
        parts += [*found.parts, *([Part(PartKind.LITERAL, tail)] if tail else [])]
    return Word(marked(tuple(parts)), tuple(parts))


def _found(starts: tuple[Word, ...], tests: list[tuple[Word, ...]]) -> Word:
    """Return the word that stands for what is found: something below the start, where there is only one."""
    operators = {test[0].text for test in tests}
    holds = not operators & {"-o", "-or", ",", "!", "-not", "(", "-L", "-H", "-follow"}
    values = [(test[0].text, test[1].text) for test in tests if len(test) == _PAIR and test[1].is_literal]
    named = (value for test, value in values if test == "-name" and holds)
    names = [value for value in named if _PLAIN_PATTERN.fullmatch(value)]
    text = PLAIN if holds and ("-type", "f") in values else "each file found"
    given = Part(PartKind.GIVEN, f"{text}{_NAMED}{names[0]}" if names else text)
    if len(starts) != 1 or starts[0].text.startswith("-"):
        return Word(marked((given,)), (given,))
    start = starts[0]
    parts = (*(start.parts or (Part(PartKind.LITERAL, start.text),)), Part(PartKind.LITERAL, "/"), given)
    return Word(marked(parts), parts)


def found_name(text: str) -> str:
    """Return the pattern that the name of what is found has, or "" where it may be any."""
    return text.partition(_NAMED)[2]


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


def removing_what_it_prints(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words of a `find` as if it removed by itself what it prints, or what it runs may print."""
    kept = words[: _expression_at(words)]
    delete, several = (literal("-delete"),), list(find_terms(words))
    acting = [term[0].text in _PRINTING | EXECUTING for term in several]
    changed = (delete if acts else term for term, acts in zip(several, acting, strict=True))
    inside = tuple(word for term in changed for word in term)
    if any(acting):
        return (*kept, *inside)
    return (*kept, literal("("), *inside, literal(")"), *delete) if inside else (*kept, *delete)


def find_only_looks(words: tuple[Word, ...]) -> bool:
    """Whether `find` deletes and writes nothing and follows no links; words are those behind its name."""
    start = _expression_at(words)
    # An open word could be any option, action or end of a command.
    if any(not word.is_literal for word in words[start:]) or any(word.text == "-L" for word in words):
        return False
    return all(_only_looks(term, words) for term in find_terms(words))


def _only_looks(term: tuple[Word, ...], words: tuple[Word, ...]) -> bool:
    name = term[0].text
    if name in {"-exec", "-execdir"}:
        # What it runs is a command of its own, and judged as such; it must have an end.
        end = next(at for at, word in enumerate(words) if word is term[0]) + len(term)
        return end < len(words) and len(term) > 1
    return name in _LOOKING[0] or (name in _LOOKING[1] and len(term) == _PAIR)
