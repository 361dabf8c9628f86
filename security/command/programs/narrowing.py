"""Tell which names a `find` expression lets through to its actions.

An action at the end of a branch acts on what passed every test of that branch. A test narrows that says
something of a name, that finds nothing with a content of its own, or that only finds what is old or big, with
any name. Owners, depth, small sizes and dates are true of whole trees, and `!` lets all others through. What
cannot be followed narrows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from posixpath import basename
from typing import TypeAlias

from ...text import WildcardToken, wildcard_expression, wildcard_tokens
from ..syntax import PartKind, Word

__all__ = ["Branch", "NameTest", "branches", "is_hit", "tests_of"]

_NAMES = frozenset("-name -iname".split())
_PATHS = frozenset("-path -ipath -wholename -iwholename".split())
_REGEXES = frozenset({"-regex", "-iregex"})
# What these find holds nothing: links, empty files and folders, or the one file with a number.
_HOLLOW = {"-type": r"l", "-xtype": r"l", "-size": r"0+[bcwkMG]?", "-inum": r"\d+"}
_DAYS = r"\+0*[1-9]\d*"
# More than a day old, or more than a megabyte.
_OLD_OR_BIG = {"-mtime": _DAYS, "-atime": _DAYS, "-ctime": _DAYS, "-size": rf"{_DAYS}[MG]"}
_ALWAYS = frozenset(
    "-true -print -print0 -printf -ls -fprint -fprint0 -fprintf -fls -prune -depth -xdev".split()
)
_ALWAYS_TOO = frozenset("-mount -maxdepth -mindepth -daystart -warn -nowarn -noleaf -regextype".split())
_NEVER = frozenset({"-false", "-quit"})
_NOT, _OR, _AND = frozenset({"!", "-not"}), frozenset({"-o", "-or"}), frozenset({"-a", "-and"})
_MOST_BRANCHES = 32
_MOST_TESTS = 8
_LONGEST = 256
_DEEPEST = 16
_PAIR = 2

# A set of a few characters tells as much as one character.
_FEW = re.compile(r"\[\w{1,4}\]")
# The end of a regular expression that only texts with this end match, wherever the expression is read.
_ENDING = re.compile(
    r"[^|]*(?:\\\.(?:(?P<end>\w+)|\\?\((?P<ends>\w+(?:\\?\|\w+)*)\\?\))|[^\\\w|](?P<word>\w{3,}))\$?"
)


@dataclass(frozen=True, slots=True)
class NameTest:
    """A pattern that the name, or the whole path, of all that passes matches; "" if nobody knows it."""

    pattern: str
    of_path: bool = False


Branch: TypeAlias = "tuple[NameTest | None, ...]"
"""The tests on the way to an action that narrow; None is one that finds nothing with a content of its own."""

_State: TypeAlias = "tuple[Branch, ...]"
_Ends: TypeAlias = "tuple[_State, _State]"
_ALL: _State = ((),)


def branches(
    terms: tuple[tuple[Word, ...], ...], acts: Callable[[tuple[Word, ...]], bool]
) -> tuple[Branch, ...]:
    """Return the branches of an expression by which the terms that act are reached, an empty one for all."""
    if not any(map(acts, terms)):
        return ()
    walk = _Walk(terms, acts)
    try:
        walk.list_of_all(_ALL, 0)
    except _Lost:
        return _ALL
    reached = tuple(dict.fromkeys(walk.reached))
    return _ALL if walk.at < len(terms) or len(reached) > _MOST_BRANCHES else reached


class _Lost(Exception):
    """The expression cannot be followed."""


@dataclass(slots=True)
class _Walk:
    """Goes through an expression; each step takes what comes in and returns what it is true and false of."""

    terms: tuple[tuple[Word, ...], ...]
    acts: Callable[[tuple[Word, ...]], bool]
    at: int = 0
    reached: list[Branch] = field(default_factory=list)

    def list_of_all(self, state: _State, depth: int) -> _Ends:
        true, false = self.either(state, depth)
        while self._next({","}):
            true, false = self.either(_together(true, false), depth)
        return true, false

    def either(self, state: _State, depth: int) -> _Ends:
        true, false = self.both(state, depth)
        while self._next(_OR):
            other, false = self.both(false, depth)
            true = _together(true, other)
        return true, false

    def both(self, state: _State, depth: int) -> _Ends:
        true, false = self.one(state, depth)
        while self.at < len(self.terms) and self._name() not in {*_OR, ",", ")"}:
            self._next(_AND)
            true, other = self.one(true, depth)
            false = _together(false, other)
        return true, false

    def one(self, state: _State, depth: int) -> _Ends:
        if self.at >= len(self.terms) or depth > _DEEPEST:
            raise _Lost
        if self._next(_NOT):
            true, false = self.one(state, depth + 1)
            return false, true
        if self._next({"("}):
            ends = self.list_of_all(state, depth + 1)
            if not self._next({")"}):
                raise _Lost
            return ends
        if self._name() in {*_OR, *_AND, ",", ")"}:
            raise _Lost
        term = self.terms[self.at]
        self.at += 1
        if self.acts(term):
            self.reached += state
        return _through(term, state)

    def _name(self) -> str:
        return self.terms[self.at][0].text

    def _next(self, names: frozenset[str] | set[str]) -> bool:
        found = self.at < len(self.terms) and self._name() in names
        self.at += found
        return found


def _together(one: _State, other: _State) -> _State:
    joined = tuple(dict.fromkeys((*one, *other)))
    if len(joined) > _MOST_BRANCHES:
        raise _Lost
    return joined


def _through(term: tuple[Word, ...], state: _State) -> _Ends:
    name = term[0].text
    if name in _NEVER:
        return (), state
    if name in _ALWAYS | _ALWAYS_TOO:
        return state, ()
    tests = tuple(tests_of(term))
    # To forget a test is to let more through.
    narrowed = tuple((*branch, test)[:_MOST_TESTS] for test in tests for branch in state)
    return (_together(narrowed, ()) if tests else state), state


def tests_of(term: tuple[Word, ...]) -> Iterator[NameTest | None]:
    """Yield what a test narrows to, one for each way it may be met; nothing where it narrows nothing."""
    name = term[0].text
    if name == "-empty":
        yield None
    if len(term) != _PAIR:
        return
    value = _value(term[1])
    if value is not None and len(value) > _LONGEST:
        return
    if name in _HOLLOW and value is not None and re.fullmatch(_HOLLOW[name], value):
        yield None
    elif name in _OLD_OR_BIG and value is not None and re.fullmatch(_OLD_OR_BIG[name], value):
        yield NameTest("*")
    elif name in _NAMES | _PATHS and (not value or _is_telling(value)):
        yield NameTest(value or "", name in _PATHS)
    elif name in _REGEXES:
        yield from _ends_of(value)


def _ends_of(value: str | None) -> Iterator[NameTest]:
    """Yield the ends of which one stands behind every path that a regular expression matches."""
    if not value:
        yield NameTest("", of_path=True)
        return
    found = _ENDING.fullmatch(value)
    for end in re.findall(r"\w+", found["end"] or found["ends"] or found["word"]) if found else ():
        yield NameTest(f"*{end}", of_path=True)


def _value(word: Word) -> str | None:
    """Return a text or a pattern as it is written, since a shell may hand it on as it is; else None."""
    if not all(part.kind in {PartKind.LITERAL, PartKind.GLOB} for part in word.parts):
        return None
    return "".join(part.text for part in word.parts) if word.parts else word.text


def _is_telling(pattern: str) -> bool:
    """Whether a pattern says how a name begins or ends, or holds two characters in a row."""
    text = "".join(
        "*" if _is_open(token) else token.text[-1].replace("*", "x") for token in wildcard_tokens(pattern)
    )
    begins, *inner, ends = text.split("*") if "*" in text else (text, text)
    return any(run.strip("./") for run in (begins, ends)) or any(
        len(run) >= _PAIR and run.strip("./") for run in inner
    )


def _is_open(token: WildcardToken) -> bool:
    return token.wildcard != "" and not _FEW.fullmatch(token.text)


def is_hit(branch: Branch, path: str, *, below: bool = False) -> bool:
    """Whether something with this path, as the search prints it, could pass all tests of a branch.

    With `below`, whether its tests of the path let through what lies below it, whatever its name is.
    """
    tests = [test for test in branch if test is None or test.of_path or not below]
    return bool(tests) and all(test is not None and _matches(test, path, below=below) for test in tests)


def _matches(test: NameTest, path: str, *, below: bool) -> bool:
    """Whether a pattern matches, or could: any character stands for a set of them, and case never matters."""
    if test.pattern == "":
        return False
    whole, beginnings = _compiled(test.pattern)
    if below:
        return any(one.match(path.lower()) is not None for one in beginnings)
    return whole.match((path if test.of_path else basename(path)).lower()) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...]]:
    """Return what matches a pattern, and the telling beginnings of it that end where a folder does."""
    pieces = pattern.lower().split("/")
    several = ("/".join(pieces[:count]) for count in range(1, len(pieces)))
    beginnings = tuple(_expression(one) for one in several if _is_telling(one))
    return _expression(pattern.lower()), beginnings


def _expression(pattern: str) -> re.Pattern[str]:
    return wildcard_expression(wildcard_tokens(pattern))
