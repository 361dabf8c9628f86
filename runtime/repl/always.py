"""How does an "always" come to be? The rule in an editor, then where it holds, then how long.

The person's own words at every step: what is proposed can be made narrower or wider, and is tried on the
call at once, so that nobody takes a rule for an answer that it is not. Whoever leaves one of the steps is
back at the question, and has granted nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from leeward.security.permissions import Always
from leeward.security.ports import Answer, Question, Reply
from leeward.security.session import Scope
from leeward.security.text import visible

from .approve import told_grant
from .screen import Screen, within
from .terminal import Closed, Interrupt

__all__ = ["LineEditor", "choose_always", "seconds_of"]

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
        yield f"allowed in {grant.holds}{span}: {told_grant(grant)}"
    yield "/permissions lists it, /permissions revoke takes it back"
