"""What a person's words ask to be done: the verbs that begin a clause, in the form in which one asks.

"Read the mail that Ann sent and post a summary" asks to read and to post, and not to mail or to send. What
goes to the person ("tell me", "send me") is no act: nothing leaves by it. Nor is what a question asks about
("who can add an owner?", but "can you add one?"), or what a quotation of several words says.

A tool is named for what it does. An act of it is asked for by the same verb, or by one that people use for
the same, which `ACTS` names; a verb that is not in it is asked for by itself. Words of other languages are
not known here, so that a call is asked about which need not be.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..lazy import regex
from .sentences import quotations_hidden

__all__ = ["ACTS", "TEXT_IS_GIVEN", "acts_in", "verbs_for"]

_TABLE = Path(__file__).with_name("acts.toml").read_text(encoding="utf-8")
ACTS: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(one["named"].split()), frozenset(one["asked"].split())) for one in tomllib.loads(_TABLE)["act"]
)
"""The verbs that tools are named by, each group with those by which people ask for the same."""

# These are names of things as well; in the name of a tool another verb says what it does.
_NOUNS = frozenset("mail email message text comment post order book file record note log label tag".split())
_ALL: frozenset[str] = frozenset().union(*(named for named, _ in ACTS))
_VERB = r"[a-z][a-z'-]{1,30}"
_BEFORE = (
    "and then to please also you just now or so but kindly next finally afterwards must should will can could"
    " would let's lets me us first simply immediately directly ahead again"
)
_CLAUSE = regex(
    rf"(?:^|[.!?;:,\n(\u2013\u2014*•]|\s-\s|[\"“'‘]|\b(?:{'|'.join(_BEFORE.split())}))\s*"
    rf"(?:please\s+|also\s+|just\s+|then\s+|kindly\s+)?(?<![\w-])(?=({_VERB}))",
    re.IGNORECASE,
)
_TO_THE_PERSON = regex(r"[a-z'-]+\s+(?:me|us)\b|let\s+(?:me|us)\b", re.IGNORECASE)
_TELLING = "|".join(sorted(ACTS[0][1] | ACTS[1][1], key=len, reverse=True))
# A name in quotes has one word as a rule, what is to be written more; right behind the verb it is that, too.
_GIVES_TEXT = regex(
    rf"\b(?:{_TELLING})\b(?:\s*[\"“'‘«]|(?:[^.!?\n]|\.(?=\S)){{0,120}}?(?:\bthat\b|\bsaying\b|\bwhether\b|:\s*[^\s/]"
    r"|[\"“'‘«]\S+\s[^\"”'’»]*[\"”'’»]))",
    re.IGNORECASE,
)
TEXT_IS_GIVEN = ":text"
"""Is among the acts where the words say themselves what is to be written."""

# A dot inside of a word ends no sentence. What "can you" introduces in a question is asked for.
_QUESTION = regex(
    r"(?:^|(?<=[.!?;:\n]))\s*(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|does|did|has|have"
    r"|had)(?:['’]s)?\b(?:[^.!?\n]|[.!?](?=\w)){0,2000}\?",
    re.IGNORECASE,
)
_REQUEST = regex(r"\b(?:(?:can|could|will|would)\s+you|please)\b", re.IGNORECASE)
_STRESSED = regex(r"[*_]{1,2}(?=\w)")


def acts_in(text: str) -> Iterator[str]:
    """Yield the words of a text that begin a clause, folded, where what follows is not for the person.

    `TEXT_IS_GIVEN` is the first of them where the text says what is to be written to somebody.
    """
    if _GIVES_TEXT.search(text):
        yield TEXT_IS_GIVEN
    asking = _QUESTION.sub(_requested, quotations_hidden(_STRESSED.sub("", text)))
    for found in _CLAUSE.finditer(asking):
        if _TO_THE_PERSON.match(found.string, found.end()) is None:
            yield found[1].lower()


def _requested(question: re.Match[str]) -> str:
    """Return what a question asks to be done, from "can you" on; a full stop where it does not."""
    request = _REQUEST.search(question[0])
    return f". {question[0][request.start() :]}" if request else "."


@lru_cache(maxsize=512)
def verbs_for(tool: str) -> frozenset[str]:
    """Return the verbs by which one asks for what a tool of this name does."""
    words = tool.lower().split("_")
    known = [word for word in words if word in _ALL]
    verb = next((word for word in known if word not in _NOUNS), known[0] if known else words[0])
    return frozenset({verb}).union(*(asked for named, asked in ACTS if verb in named))
