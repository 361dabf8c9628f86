"""How a question is put to the person: what would happen, who asks why, and what "always" would mean.

Shown is the canonical action, which is what runs; every value is spelled visibly and on its own line.
"""

from __future__ import annotations

from collections.abc import Iterator

from leeward.security import Answer, Atom, Kind, Question, canonical_json, visible

__all__ = ["CHOICES", "choice", "question_lines"]

CHOICES = {"y": Answer.YES, "yes": Answer.YES, "n": Answer.NO, "no": Answer.NO, "a": Answer.ALWAYS, "always": Answer.ALWAYS}

_NAMES = {Kind.COMMAND: "runs", Kind.PATH: "path", Kind.URL: "opens"}
_LONGEST_VALUE = 2000


def question_lines(question: Question) -> Iterator[str]:
    """Yield the lines of a question, free of anything a terminal would obey."""
    action = question.action
    yield f"{visible(action.call.tool)} wants to run:"
    shown = [atom for atom in action.atoms if atom.kind in _NAMES]
    for atom in shown:
        yield from _value(_NAMES[atom.kind], _canonical(atom))
    told = {atom.pointer for atom in shown}
    rest = {key: value for key, value in action.arguments.items() if f"/{key}" not in told}
    for key, value in rest.items():
        yield from _value(key, value if isinstance(value, str) else canonical_json(value))
    for gate, ask in question.asks:
        yield f"  {gate} asks: {ask.question}"
        for name, value in ask.facts:
            yield from _value(name, value)
    for tool, match in question.always or ():
        yield f"  always would allow, for this session: {tool}{f' {visible(match)}' if match is not None else ''}"


def choice(typed: str, question: Question) -> Answer | None:
    """Return what a typed answer means, or None where it means nothing (or "always" is not on offer)."""
    answer = CHOICES.get(typed.strip().lower())
    return None if answer is Answer.ALWAYS and question.always is None else answer


def _canonical(atom: Atom) -> str:
    """A command line as it stands, for that is what the shell is given; all else in its canonical form."""
    return atom.raw if atom.kind is Kind.COMMAND else atom.shown


def _value(name: str, value: str) -> Iterator[str]:
    """Yield a value line by line, so that none can pose as a line of ours; a cut is said."""
    lines = value[:_LONGEST_VALUE].split("\n")
    yield f"  {name}: {visible(lines[0])}"
    for line in lines[1:]:
        yield f"  {' ' * len(name)}│ {visible(line)}"
    if len(value) > _LONGEST_VALUE:
        yield f"  {' ' * len(name)}… {len(value) - _LONGEST_VALUE} more characters"
