"""Run the rules that fit a command on its output.

The rules run as one pipeline, each on what the one before left. A rule that fails, or that would leave out
all there is, is passed over, and a notice says so. No rule decides which lines must stay: the page guards
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from leeward.security.filters import Distilled

from .page import NothingLeft, Page
from .reading import Reader
from .rules import Rule, RuleSet
from .strategies import Truncate

__all__ = ["Distillation"]

# What a mistake in a strategy, or an output nobody thought of, raises; it must not cost the output.
_MISTAKES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

# What is saved must be more than its notices cost.
_WORTH = 200
# Of the room there is, as where nothing but length is known (`security/filters/distill.py`).
_HEAD_TENTHS, _TAIL_TENTHS = 3, 2


class Distillation:
    """One output on its way through its rules.

    `is_success_known` tells that exit code 0 is that of every program whose output this is; where it is not,
    the output is filtered as that of a failure.
    """

    def __init__(self, rules: Iterable[Rule], known: RuleSet, is_success_known: bool) -> None:
        self._rules = tuple(rules)
        self._known = known
        self._is_success_known = is_success_known
        self._reader = Reader()

    def feed(self, piece: str) -> None:
        """Take the next piece of the output, stripped and redacted."""
        self._reader.feed(piece)

    def finish(self, exit_code: int | None, room: int) -> Distilled | None:
        """Return what is to be shown of all there was, None where that is all of it.

        Longer than `room` characters it is only where more than that matters.
        """
        failed = exit_code != 0 or not self._is_success_known
        page = first = self._reader.page(failed=failed)
        if self._reader.chars <= _WORTH:
            return self._undistilled(first, ())
        used: list[str] = []
        notices: list[str] = []
        for rule in self._rules:
            if rule.runs(failed=failed):
                after, notice = run_rule(rule, page)
                used += [self._named(rule)] if after is not page else []
                notices += [notice] if notice else []
                page = after
        page = _fitted(page if page is first else page.squeezed, room)
        text = page.text
        if len(text) + _WORTH > self._reader.chars:
            return self._undistilled(first, notices)
        by = f" ({', '.join(used)})" if used else ""
        summary = f"output filters{by} show {len(page.lines)} of {first.total} lines"
        return Distilled(text, (summary, *notices))

    def _undistilled(self, page: Page, notices: Iterable[str]) -> Distilled | None:
        """Return that all is shown as it is, but for what looks like a mark and is none."""
        if self._reader.had_marks and self._reader.is_whole:
            return Distilled(page.text, (*notices, "it is shown whole; what began like a mark was altered"))
        return Distilled(None, tuple(notices)) if notices else None

    def _named(self, rule: Rule) -> str:
        layer = self._known.layers[rule.name]
        return rule.name if layer == "built in" else f"{rule.name}, {layer}"


def run_rule(rule: Rule, page: Page) -> tuple[Page, str]:
    """Return what a rule leaves of a page; where it cannot be used, the page as it is, and why."""
    after = page
    try:
        for strategy in rule.strategy:
            after = after.after(strategy.decide(after))
    except NothingLeft:
        return page, f"the output filter {rule.name} would have left out everything, so it was not used"
    except _MISTAKES as error:
        return page, f"the output filter {rule.name} failed ({type(error).__name__}), so it was not used"
    return after, ""


def _fitted(page: Page, room: int) -> Page:
    """Leave out the middle of what is still too long, but for the lines that matter."""
    if sum(map(len, page.lines)) + len(page.lines) <= room:
        return page
    head = _count_within(page.lines, room * _HEAD_TENTHS // 10)
    tail = _count_within(reversed(page.lines), room * _TAIL_TENTHS // 10)
    if head + tail >= len(page.lines):
        return page
    factor = 2 if page.failed else 1
    ends = Truncate(max_lines=1, head=max(head // factor, 1), tail=max(tail // factor, 1))
    return page.after(ends.decide(page))


def _count_within(lines: Iterable[str], room: int) -> int:
    count = 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1
    return count
