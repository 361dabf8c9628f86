"""Put a question to the person: what would happen, which gate asks why, and what "always" would grant.

Shown is the canonical action, which is what runs, in full, a command line as the tree of what it runs;
other values are cut, and that is said. Every value is escaped visibly and keeps to its own column:
it cannot look like a line of ours. For an "always" the person edits the rule, then chooses where and how
long it holds; the rule is tried on the call at once, and cancelling any step returns to the question without
granting. What the answer leads to is the pipeline's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from leeward.security.call import Atom
from leeward.security.command import CommandLine, explain
from leeward.security.kinds import Kind, Unreadable
from leeward.security.permissions import Always
from leeward.security.ports import Answer, Question, Reply
from leeward.security.question import ACTS, Ends, arguments_of, ends_of, is_act, quoted_name
from leeward.security.session import Scope
from leeward.security.text import visible
from leeward.security.url import Url, host_facts

from .screen import Screen, within
from .terminal import Closed, Interrupt

__all__ = [
    "CHOICES",
    "LineEditor",
    "choice",
    "choose_always",
    "is_cut",
    "offer",
    "question_lines",
    "seconds_of",
]


CHOICES = {
    "y": Answer.YES,
    "yes": Answer.YES,
    "n": Answer.NO,
    "no": Answer.NO,
    "a": Answer.ALWAYS,
    "always": Answer.ALWAYS,
    "k": Answer.YES,
    "keep": Answer.YES,
    "d": Answer.NO,
    "discard": Answer.NO,
}
"""What may be typed for an answer; changes are kept or discarded."""

_FACT_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")
_LONG_QUESTION = 40
_NEXT_LINE = "    │ "


def question_lines(question: Question, width: int = 80, *, in_full: bool = False) -> Iterator[str]:
    """Yield the lines of a question, none wider than the terminal, free of anything it would obey.

    `width` is in columns. With `in_full` nothing is cut.
    """
    action = question.action
    tool = visible(action.call.tool if action.of is None else action.of.call.tool)
    what = "wants to run:" if action.of is None else "ran on trial; nothing is changed yet:"
    yield from within(width, "", f"{tool} {what}", "  ")
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
        for grant in question.grants(Always(rules or ())):
            yield from _value(name, grant.what, width)


def is_cut(question: Question) -> bool:
    """Whether something is not shown in full unless that is asked for."""
    return any(ends_of(value).missing for _, value in arguments_of(question.action))


def offer(question: Question, *, in_full: bool = False) -> str:
    """Return the prompt that names the answers there are: no yes to what was not shown in full."""
    if not in_full and is_cut(question):
        return f"  [s]how all / {'[n]o' if question.action.of is None else '[d]iscard'}? "
    always = " / [a]lways" if question.always is not None else ""
    wider = " / [w]ider" if question.wider is not None else ""
    both = "[y]es / [n]o" if question.action.of is None else "[k]eep / [d]iscard"
    return f"  {both}{always}{wider}? "


def choice(typed: str, question: Question) -> Answer | None:
    """Return what a typed answer means, or None where it means nothing (or "always" is not on offer)."""
    answer = CHOICES.get(typed.strip().lower())
    return None if answer is Answer.ALWAYS and question.always is None else answer


def _acts(question: Question) -> Iterator[tuple[str, str]]:
    """Yield what the call would do, as it was read: commands, paths, URLs, and what is odd about a host."""
    # What a trial run changed is told with its paths; it is the command that did something.
    for atom in (question.action.of or question.action).atoms:
        if not is_act(atom):
            continue
        if atom.kind is Kind.COMMAND and isinstance(atom.canonical, Unreadable):
            yield "not understood", atom.canonical.reason
            yield "runs as written", atom.raw
            continue
        yield ("ran" if question.action.of is not None else ACTS[atom.kind]), _canonical(atom)
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


_SCOPES = {
    "": Scope.SESSION,
    "s": Scope.SESSION,
    "session": Scope.SESSION,
    "w": Scope.WORKSPACE,
    "workspace": Scope.WORKSPACE,
    "e": Scope.EVERYWHERE,
    "everywhere": Scope.EVERYWHERE,
}
_ONCE = frozenset({"o", "once"})
_NO_END = frozenset({"", "never"})
_SPAN = re.compile(r"([1-9][0-9]{0,4}) ?([mhd])")
_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS = ("day", "hour", "minute")


class LineEditor(Protocol):
    """What reads a short line, which may stand there already."""

    async def answer(self, prompt: str, text: str = "") -> str:
        """Read a line."""
        ...


async def choose_always(
    question: Question, rules: tuple[tuple[str, str | None], ...], editor: LineEditor, screen: Screen
) -> Reply | None:
    """Have the rules edited, and return the answer they make, or None where the person went back."""
    asking = _Asking(question, editor, screen)
    try:
        edited = await asking.edited(rules)
        if edited is None:
            return None
        scope = await asking.scope()
        if scope is None:
            return Answer.YES
        always = await asking.lasting(edited, scope)
    except (Interrupt, Closed):
        asking.say("nothing is granted; the question is still open")
        return None
    for line in _granted(always, question):
        asking.say(line)
    return always


def seconds_of(text: str) -> float | None:
    """Return a span such as 30m, 12h or 7d in seconds, None for what is none."""
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, slots=True)
class _Asking:
    question: Question
    editor: LineEditor
    screen: Screen

    async def edited(
        self, rules: tuple[tuple[str, str | None], ...]
    ) -> tuple[tuple[str, str | None], ...] | None:
        """Return the rules as the person wants them, once they can be granted; None where one was emptied."""
        while True:
            typed: list[tuple[str, str | None]] = []
            for number, (tool, match) in enumerate(rules, 1):
                if match is None:
                    self.say(f"this allows every call of {tool}")
                    typed.append((tool, None))
                    continue
                of = f"{number} of {len(rules)}: " if len(rules) > 1 else ""
                line = (await self.editor.answer(f"  rule {of}allow {tool} ", match)).strip()
                if not line:
                    return None
                typed.append((tool, line))
            problem = self.question.problem(Always(tuple(typed)))
            if problem is None:
                return tuple(typed)
            self.say(f"✗ {problem}")
            if all(match is None for _, match in rules):
                return None
            rules = tuple(typed)

    async def scope(self) -> Scope | None:
        """Return where the rules hold; None for this call only."""
        while True:
            prompt = "  where: this [s]ession / this [w]orkspace / [e]verywhere / [o]nce? "
            typed = (await self.editor.answer(prompt)).strip().lower()
            if typed in _ONCE:
                return None
            if typed in _SCOPES:
                return _SCOPES[typed]
            self.say("✗ one of the four letters, please; Enter is s")

    async def lasting(self, rules: tuple[tuple[str, str | None], ...], scope: Scope) -> Always:
        """Return the rules with the time after which they end."""
        while True:
            typed = (await self.editor.answer("  until: 30m, 12h, 7d, or never? ")).strip().lower()
            seconds = seconds_of(typed)
            always = Always(rules, scope, seconds)
            problem = self.question.problem(always)
            if seconds is None and typed not in _NO_END:
                problem = "minutes, hours or days, as in 30m, 12h and 7d; Enter is never"
            if problem is None:
                return always
            self.say(f"✗ {problem}")

    def say(self, text: str) -> None:
        for line in within(self.screen.width, "  ", visible(text), "    ", by_words=True):
            self.screen.line(line, "dim")


def _told(seconds: float) -> str:
    """Return a span that `seconds_of` read in the largest unit that it is a number of."""
    name, unit = next((name, _SECONDS[name[0]]) for name in _UNITS if seconds % _SECONDS[name[0]] == 0)
    number = round(seconds / unit)
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _granted(always: Always, question: Question) -> Iterator[str]:
    span = "" if always.seconds is None else f" for {_told(always.seconds)}"
    for grant in question.grants(always):
        yield f"allowed in {grant.holds}{span}: {grant.what}"
    yield "/permissions lists it, /permissions revoke takes it back"
