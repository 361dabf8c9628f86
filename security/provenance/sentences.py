"""Separate what a person asks for from what they rule out.

A sentence in which a word negates says no as a whole: which of its values the word is about is not guessed.
Where a list follows (`Never write to these:`), it says no up to the next blank line. Doubt is a no: what is
in such a sentence is asked about, and nothing is refused for it.

A line that is not over does not end a sentence (`never write to` / `ann@example.com`), nor does a semicolon,
or the dot of an abbreviation. A word of a value does not negate: `https://example.com/why-not`. One in a
quotation negates what is quoted, and not the sentence around it: `send "I cannot come today" to Ann`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ..lazy import regex

__all__ = ["affirmed", "quotations_hidden", "sentences_of"]

# Words that a sentence goes on after, in the next line; and what a dot behind them does not end.
_UNFINISHED = "a and at by for from in of on or the to with".split()
_ABBREVIATED = "Mr Mrs Ms Dr Prof St vs incl viz e.g i.e eg ie".split()
_GOES_ON = "".join(rf"(?<!\b{word})" for word in _UNFINISHED)
_NO_END = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in _ABBREVIATED)
_BULLET = r"(?:[-*•–]|\d{1,3}[.)])\s"
_END = regex(
    rf"(?P<blank>\n[ \t\r]*\n\s*)|(?<=[.!?])(?i:{_NO_END})\s+|(?<=[.!?][\"”’'])\s+(?=[A-Z])"
    rf"|\n(?=[ \t]*{_BULLET})"
    rf"|(?<![,:\s])(?i:{_GOES_ON})[ \t\r]*\n(?=[ \t]*[A-Z])|(?i:,?(?<!\s)\s+but\b)"
)
# Each begins where blanks do, so that a long run of them is read once.
_BULLETED = regex(rf"\s*{_BULLET}")
_LIST = regex(r":[ \t\r]*\n")
_ALL_BUT = regex(r"\b(all|(?:any|every|no)[a-z]{0,8})(\s+)but\b", re.IGNORECASE)
_NEGATION = regex(
    r"(?:(?<![\w./@=&?#+-])|(?<=^_)|(?<=[\s_*(]_))"
    r"(?:not|never|nor|neither|none|nobody|nothing|nowhere|except|avoid|without|unless|cannot|refrain"
    r"|dont|doesnt|mustnt|shouldnt|wont|cant|[a-z]{1,8}n['’‘`´ʼ]t|stop\s+[a-z]{1,20}ing"
    r"|instead\s+of|rather\s+than|other\s+than|apart\s+from"
    r"|no(?!\.?\s*\d|\s+(?:problem|need|matter|later|more\s+than|less\s+than)\b)"
    r"|nicht|nie|niemals|keine?[mnrs]?|außer|jamais|nunca)"
    r"(?!_?[^\W_]|[@=-]|\.\w)",
    re.IGNORECASE,
)


_QUOTED = regex(
    r"(?<!\w)(?:\"[^\"]{0,4000}\"|“[^”]{0,4000}”|„[^“”]{0,4000}[“”]"
    r"|'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))*+'|‘(?=\S)(?:[^‘’\n]|(?<=\w)’(?=\w))*+’)(?!\w)"
)
_FEWEST_QUOTED = 3
# What holds a word that negates, and asks for what follows all the same.
_ASKING = regex(
    r"\b(?:do\s+not|don['’]?t|never)\s+(?:forget|hesitate|fail)\b|\bnot\s+only\b|\b(?:if|or)\s+not(?=\s*[,.?!])",
    re.IGNORECASE,
)


def affirmed(text: str) -> str:
    """Return a person's words without the sentences that say no."""
    return "\n".join(sentence for sentence, says_no in sentences_of(text) if not says_no)


def quotations_hidden(text: str) -> str:
    """Return a text without what quotations say, but for those of one or two words, which may be names."""
    return _QUOTED.sub(lambda found: found[0] if len(found[0].split()) < _FEWEST_QUOTED else '""', text)


def sentences_of(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence, and whether it says no, in itself or as what follows a colon of one that does.

    A text that says no nowhere is one sentence.
    """
    read, quotes = _masked(text)
    is_listed = False
    for start, end, is_paragraph in _split(read) if _NEGATION.search(read) else ((0, len(text), True),):
        sentence = read[start:end]
        says_no = is_listed or _NEGATION.search(sentence) is not None
        if says_no:
            yield text[start:end], True
        else:
            yield from _set_apart(text, start, end, quotes)
        if says_no and sentence.rstrip().endswith(":"):
            is_listed = True
        elif is_paragraph:
            is_listed = False
        elif says_no and _LIST.search(sentence):
            is_listed = True


def _masked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text as it is read, of the same length, and where the quotations are that negate.

    In these nothing negates the sentence around, nor does a phrase that asks for something; `all but` does.
    One or two words in quotes may be stressed: `do "not" write`.
    """
    read = _ASKING.sub(lambda found: "x" * len(found[0]), text)
    read = _ALL_BUT.sub(lambda found: f"{found[1]}{found[2]}not", read)
    quotes = [
        found.span()
        for found in _QUOTED.finditer(read)
        if len(found[0].split()) >= _FEWEST_QUOTED and _NEGATION.search(found[0])
    ]
    parts: list[str] = []
    before = 0
    for start, end in quotes:
        # The last character stays, which may end a sentence.
        parts += (read[before : start + 1], "x" * (end - start - 3))
        before = end - 2
    return "".join((*parts, read[before:])), quotes


def _set_apart(
    text: str, start: int, end: int, quotes: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, bool]]:
    """Yield a sentence that says no nowhere, but for the quotations in it that do."""
    for opens, closes in quotes[bisect_left(quotes, (start, 0)) : bisect_left(quotes, (end, 0))]:
        yield text[start:opens], False
        yield text[opens:closes], True
        start = closes
    yield text[start:end], False


def _split(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where sentences begin and end, and whether a paragraph ends there, but for one between points."""
    start = 0
    for end in _END.finditer(text):
        if text[start : end.start()].strip():
            is_paragraph = end["blank"] is not None and _BULLETED.match(text, end.end()) is None
            yield start, end.start(), is_paragraph
        start = end.end()
    if text[start:].strip():
        yield start, len(text), True
