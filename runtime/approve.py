"""How is a question put to the person? What would happen, who asks why, and what "always" would mean.

Shown is the canonical action, which is what runs, in full, a command line as the tree of what it runs;
other values are cut, and that is said. Every value is spelled visibly and keeps to its own column:
whatever it holds, and however long it is, it cannot look like a line of ours. How an "always" comes to be
stands in `always.py`; what the answer leads to is the pipeline's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from leeward.security import (
    Action,
    Answer,
    Atom,
    CommandLine,
    Kind,
    Question,
    Unreadable,
    Url,
    canonical_json,
    explain,
    host_facts,
    visible,
)

from .screen import within

__all__ = ["CHOICES", "choice", "is_cut", "offer", "question_lines"]

CHOICES = {
    "y": Answer.YES,
    "yes": Answer.YES,
    "n": Answer.NO,
    "no": Answer.NO,
    "a": Answer.ALWAYS,
    "always": Answer.ALWAYS,
}
"""What may be typed for an answer."""

_NAMES = {Kind.COMMAND: "runs", Kind.PATH: "path", Kind.URL: "opens"}
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_FACT_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")
_LONGEST_NAME = 60
_LONGEST_VALUE = 2000
_MOST_LINES = 20
_LONG_QUESTION = 40
_NEXT_LINE = "    │ "


def question_lines(question: Question, width: int = 80, *, in_full: bool = False) -> Iterator[str]:
    """Yield the lines of a question, none wider than the terminal, free of anything it would obey.

    `width` is in columns. With `in_full` nothing is cut.
    """
    yield from within(width, "", f"{visible(question.action.call.tool)} wants to run:", "  ")
    told = [line for name, value in _acts(question) for line in _value(name, value, width)]
    for name, value in _rest(question):
        shown = value if in_full else _cut(value)
        told += _value(name, shown, width)
        if shown != value:
            told.append(f"    … {len(value) - len(shown)} more characters")
    if question.uncovered:
        told += _value("/undo would not cover", question.uncovered, width)
    yield from told
    if len(told) > _LONG_QUESTION:
        yield f"  (all of the {len(told)} lines above belong to it)"
    for gate, ask in question.asks:
        yield from within(width, f"  {gate} asks: ", visible(ask.question), "    ", by_words=True)
        for name, value in ask.facts:
            yield from _value(name if _FACT_NAME.fullmatch(name) else _quoted(name), value, width)
    for name, rules in (("always would allow", question.always), ("or, wider", question.wider)):
        for tool, match in rules or ():
            what = f"every call of {tool}" if match is None else f"{tool} {match}"
            yield from _value(name, what, width)


def is_cut(question: Question) -> bool:
    """Whether something is not shown in full unless that is asked for."""
    return any(_cut(value) != value for _, value in _rest(question))


def offer(question: Question, *, in_full: bool = False) -> str:
    """Return the prompt that names the answers there are."""
    always = " / [a]lways" if question.always is not None else ""
    wider = " / [w]ider" if question.wider is not None else ""
    show = " / [s]how all" if is_cut(question) and not in_full else ""
    return f"  [y]es / [n]o{always}{wider}{show}? "


def choice(typed: str, question: Question) -> Answer | None:
    """Return what a typed answer means, or None where it means nothing (or "always" is not on offer)."""
    answer = CHOICES.get(typed.strip().lower())
    return None if answer is Answer.ALWAYS and question.always is None else answer


def _acts(question: Question) -> Iterator[tuple[str, str]]:
    """Yield what the call would do, as it was read: commands, paths, URLs, and what is odd about a host."""
    for atom in question.action.atoms:
        if not atom.declared or atom.kind not in _NAMES:
            continue
        if atom.kind is Kind.COMMAND and isinstance(atom.canonical, Unreadable):
            yield "not understood", atom.canonical.reason
            yield "runs as written", atom.raw
            continue
        yield _NAMES[atom.kind], _canonical(atom)
        if isinstance(atom.canonical, Url):
            yield from host_facts(atom.canonical)


def _rest(question: Question) -> Iterator[tuple[str, str]]:
    """Yield the arguments that are not told as what they do, by name."""
    action = question.action
    told = {atom.pointer for atom in action.atoms if atom.declared and atom.kind in _NAMES}
    secrets = {atom.raw for atom in action.of_kind(Kind.SECRET) if atom.declared and atom.raw}
    preview = action.preview()
    if preview is not None:
        yield preview.name, preview.text
        told |= {f"/{key}" for key in preview.instead_of}
    for key, value in action.arguments.items():
        if f"/{key}" in told or _is_default(action, key, value):
            continue
        shown = value if isinstance(value, str) else canonical_json(value)
        for secret in secrets:
            shown = shown.replace(secret, "[secret]")
        plain = _PLAIN_NAME.fullmatch(key) and key not in _NAMES.values()
        yield key if plain else _quoted(key), shown


def _is_default(action: Action, key: str, value: object) -> bool:
    """Whether a switch or a number is what it is where nobody says it; it then says nothing."""
    declared = action.spec.schema.get("properties", {}).get(key, {}) if action.spec is not None else {}
    usual = declared.get("default")
    return isinstance(value, int) and type(usual) is type(value) and usual == value


def _quoted(name: str) -> str:
    """Return a name that somebody else chose so that it is taken for none of ours."""
    shown = visible(canonical_json(name))
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}…"


def _canonical(atom: Atom) -> str:
    """Return what is shown of an atom: a command line as the tree of what it runs, all else canonical."""
    if isinstance(atom.canonical, CommandLine):
        return "\n".join(explain(atom.canonical, atom.raw))
    return atom.shown


def _cut(value: str) -> str:
    """Return the beginning of a value, up to a number of characters and of lines."""
    return "\n".join(value[:_LONGEST_VALUE].split("\n")[:_MOST_LINES])


def _value(name: str, value: str, width: int) -> Iterator[str]:
    """Yield a value behind its name, line by line."""
    first, *rest = value.split("\n")
    yield from within(width, f"  {name}: ", visible(first))
    for line in rest:
        yield from within(width, _NEXT_LINE, visible(line))
