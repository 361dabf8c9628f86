"""Read the expressions of `find` and `fd`: where they look, and what they run on what they find."""

from __future__ import annotations

from collections.abc import Iterator

from ..syntax import Part, PartKind, Word, literal

__all__ = ["find_starts", "find_terms", "search_runs"]

_MARK = "{}"
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_EXECUTING = ("-x", "-X", "--exec", "--exec-batch")
_START_OPTIONS = frozenset({"-H", "-P", "-L", "-O0", "-O1", "-O2", "-O3"})
_FOUND = Word("⟨each file found⟩", (Part(PartKind.GIVEN, "each file found"),))


def search_runs(words: tuple[Word, ...]) -> tuple[tuple[tuple[Word, ...], ...], str]:
    """Return the argument vectors a search runs, and why there may be others ("" if there are not)."""
    if words[0].text.rpartition("/")[2].endswith("find"):
        runs = tuple(_on_found(term[1:]) for term in find_terms(words[1:]) if term[0].text in _EXECUTING)
        # What the shell puts there may be the end of what is run, and an action of its own behind it.
        is_open = bool(runs) and any(not word.is_literal for word in words[1 + _expression_at(words[1:]) :])
        return tuple(filter(None, runs)), "what find runs is only known when it runs" if is_open else ""
    for index, word in enumerate(words):
        if word.text.partition("=")[0] in _FD_EXECUTING:
            return ((_on_found(words[index + 1 :]),), "") if words[index + 1 :] else ((), "")
        if word.text.startswith("-") and not word.text.startswith("--") and "x" in word.text.lower():
            return (), "an option of fd starts a program"
    return (), ""


def find_terms(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield each test, operator and action of `find` with the words behind it that are its own."""
    at = _expression_at(words)
    while at < len(words):
        end = at + 1
        if words[at].text in _EXECUTING:
            while end < len(words) and not _ends(words, end):
                end += 1
            yield words[at:end]
            at = end + 1
            continue
        while end < len(words) and not words[end].text.startswith(("-", "!", "(", ")", ",")):
            end += 1
        yield words[at:end]
        at = end


def find_starts(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return where `find` begins to look; the words are those behind its name."""
    starts = (word for word in words[: _expression_at(words)] if word.text not in _START_OPTIONS)
    return tuple(starts) or (literal("."),)


def _expression_at(words: tuple[Word, ...]) -> int:
    """Return where the starts end and the tests and actions of `find` begin."""
    at = 0
    while at < len(words) and (
        words[at].text in _START_OPTIONS or not words[at].text.startswith(("-", "!", "("))
    ):
        at += 1
    return at


def _ends(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == _MARK)


def _on_found(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Put what is found in the place of `{}`, even inside a word."""
    return tuple(_FOUND if _MARK in word.text else word for word in words)
