"""How is a question put to the person? What would happen, who asks why, and what "always" would mean.

Shown is the canonical action, which is what runs, in full, a command line as the tree of what it runs;
of other values that are too long both ends are, and a yes is taken once all of them were. Every value is
spelled visibly and keeps to its own column: whatever it holds, and however long it is, it cannot look like
a line of ours. How an "always" comes to be stands in `always.py`; what the answer leads to is the
pipeline's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from leeward.security.call import Atom
from leeward.security.command import CommandLine, explain
from leeward.security.kinds import Kind
from leeward.security.permissions import Always
from leeward.security.ports import Answer, Question
from leeward.security.question import ACTS, Ends, arguments_of, ends_of, is_act, quoted_name
from leeward.security.session import Grant
from leeward.security.text import visible
from leeward.security.unreadable import Unreadable
from leeward.security.url import Url, host_facts

from .screen import within

__all__ = ["CHOICES", "choice", "is_cut", "offer", "question_lines", "told_grant"]

CHOICES = {
    "y": Answer.YES,
    "yes": Answer.YES,
    "n": Answer.NO,
    "no": Answer.NO,
    "a": Answer.ALWAYS,
    "always": Answer.ALWAYS,
}
"""What may be typed for an answer."""

_FACT_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")
_LONG_QUESTION = 40
_NEXT_LINE = "    │ "


def question_lines(question: Question, width: int = 80, *, in_full: bool = False) -> Iterator[str]:
    """Yield the lines of a question, none wider than the terminal, free of anything it would obey.

    `width` is in columns. With `in_full` nothing is cut.
    """
    yield from within(width, "", f"{visible(question.action.call.tool)} wants to run:", "  ")
    told = [line for name, value in _acts(question) for line in _value(name, value, width)]
    for name, value in arguments_of(question.action):
        ends = Ends(value) if in_full else ends_of(value)
        told += _value(name, ends.head, width)
        if ends.missing:
            told.append(f"    … {ends.missing} more characters; it ends with")
            told += _lines(ends.tail.split("\n"), width)
    if question.uncovered:
        told += _value("/undo would not cover", question.uncovered, width)
    yield from told
    if len(told) > _LONG_QUESTION:
        yield f"  (all of the {len(told)} lines above belong to it)"
    for gate, ask in question.asks:
        yield from within(width, f"  {gate} asks: ", visible(ask.question), "    ", by_words=True)
        for name, value in ask.facts:
            yield from _value(name if _FACT_NAME.fullmatch(name) else quoted_name(name), value, width)
    for name, rules in (("always would allow", question.always), ("or, wider", question.wider)):
        for what in map(told_grant, question.grants(Always(rules or ()))):
            yield from _value(name, what, width)


def told_grant(grant: Grant) -> str:
    """Say what a grant allows, with the folder of commands that do not start at the workspace's root."""
    return f"every call of {grant.tool}" if grant.match is None else grant.told.removeprefix("allow ")


def is_cut(question: Question) -> bool:
    """Whether something is not shown in full unless that is asked for."""
    return any(ends_of(value).missing for _, value in arguments_of(question.action))


def offer(question: Question, *, in_full: bool = False) -> str:
    """Return the prompt that names the answers there are: no yes to what was not shown in full."""
    if not in_full and is_cut(question):
        return "  [s]how all / [n]o? "
    always = " / [a]lways" if question.always is not None else ""
    wider = " / [w]ider" if question.wider is not None else ""
    return f"  [y]es / [n]o{always}{wider}? "


def choice(typed: str, question: Question) -> Answer | None:
    """Return what a typed answer means, or None where it means nothing (or "always" is not on offer)."""
    answer = CHOICES.get(typed.strip().lower())
    return None if answer is Answer.ALWAYS and question.always is None else answer


def _acts(question: Question) -> Iterator[tuple[str, str]]:
    """Yield what the call would do, as it was read: commands, paths, URLs, and what is odd about a host."""
    for atom in question.action.atoms:
        if not is_act(atom):
            continue
        if atom.kind is Kind.COMMAND and isinstance(atom.canonical, Unreadable):
            yield "not understood", atom.canonical.reason
            yield "runs as written", atom.raw
            continue
        yield ACTS[atom.kind], _canonical(atom)
        if isinstance(atom.canonical, Url):
            yield from host_facts(atom.canonical)


def _canonical(atom: Atom) -> str:
    """Return what is shown of an atom: a command line as the tree of what it runs, all else canonical."""
    if isinstance(atom.canonical, CommandLine):
        return "\n".join(explain(atom.canonical, atom.raw))
    return atom.shown


def _value(name: str, value: str, width: int) -> Iterator[str]:
    """Yield a value behind its name, line by line."""
    first, *rest = value.split("\n")
    yield from within(width, f"  {name}: ", visible(first))
    yield from _lines(rest, width)


def _lines(lines: list[str], width: int) -> Iterator[str]:
    """Yield further lines of a value."""
    for line in lines:
        yield from within(width, _NEXT_LINE, visible(line))
