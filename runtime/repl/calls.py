"""Print calls: a line for the request, a few for the result, and where to find all of it.

Results are printed behind a bar, so that no line of theirs begins where ours do. In a live terminal a call
is printed with its result when it has ended; elsewhere when it begins, and its output as it arrives.
"""

from __future__ import annotations

from leeward.security.call import Asker, Status, ToolCall, ToolResult
from leeward.security.text import visible

from .activity import Activity, Running, fitted
from .differences import diff_lines, folded, is_diff
from .results import Results
from .screen import Screen, within

__all__ = ["CallPrinter"]

_RESULT_LINES, _PERSON_LINES = 4, 40  # lines of a result that are shown; of what the person asked for
_LIVE_LINES = 200
_LONGEST_LIVE = 4000
_LONGEST_FAILURE = 300


class CallPrinter:
    """Prints calls and their results."""

    def __init__(
        self, screen: Screen, activity: Activity, results: Results, *, is_live: bool, verbose: bool
    ) -> None:
        self._screen = screen
        self._activity = activity
        self._results = results
        self._is_live = is_live
        self._verbose = verbose
        self._partial = ""
        self._lines = 0

    def started(self, call: ToolCall) -> None:
        """A call was asked for."""
        title = _title(call)
        self._partial, self._lines = "", 0
        self._activity.what = f"running {visible(call.tool[:64])}"
        if self._is_live:
            self._activity.calls = {**self._activity.calls, call.id: Running(title)}
        else:
            self._print_call(title)

    def _print_call(self, title: str) -> None:
        # A name that no tool has may be of any length, and is not worth more than a line.
        line = title if self._verbose else fitted(title, max(self._screen.width - 2, 20))
        name, blank, arguments = line.partition(" ")
        self._screen.put([[("● ", "cyan"), (name, "bold"), (blank + arguments, "")]])

    def running(self, call_id: str, text: str) -> None:
        """A call put something out."""
        if self._is_live:
            running = self._activity.calls.get(call_id)
            if running is not None:
                running.feed(text)
            return
        *lines, self._partial = (self._partial + text).split("\n")
        if len(self._partial) > _LONGEST_LIVE:
            lines, self._partial = [*lines, self._partial], ""
        room = max(_LIVE_LINES - self._lines, 0)
        self._screen.barred(lines[:room], "dim")
        if self._lines <= _LIVE_LINES < self._lines + len(lines):
            self._screen.line("  │ … more output follows and is not shown here", "dim italic")
        self._lines += len(lines)

    def end(self) -> None:
        """Print what was shown of calls that came to no end."""
        if self._partial:
            self.running("", "\n")
        calls, self._activity.calls = self._activity.calls, {}
        for running in calls.values():
            self._print_call(running.title)
            self._screen.barred((line for line in (*running.tail, running.partial) if line), "dim")

    def ended(self, result: ToolResult) -> None:
        """A call came to its end."""
        calls = dict(self._activity.calls)
        running = calls.pop(result.call.id, None)
        if self._partial:
            self.running("", "\n")
        if running is not None:
            self._print_call(running.title)
        self._activity.calls = calls
        match result.outcome.status:
            case Status.OK:
                self._succeeded(result)
            case Status.DENIED:
                self._refused(result)
            case _:
                self._unsuccessful(result)

    def _unsuccessful(self, result: ToolResult) -> None:
        first = visible(result.shown.strip().partition("\n")[0])
        if len(first) > _LONGEST_FAILURE and not self._verbose:
            first = f"{first[:_LONGEST_FAILURE]}…"
        number = self._kept(result)
        reason = f"{first} · /why {number}"
        self._screen.put(
            [(line, "red")] for line in within(self._screen.width, "  ✗ ", reason, "    ", by_words=True)
        )

    def _kept(self, result: ToolResult) -> int:
        """Keep a result, and return the number it is opened and explained by."""
        return self._results.add(_title(result.call), result.shown, result.overflow_id, result.call.id)

    def _succeeded(self, result: ToolResult) -> None:
        code = result.outcome.exit_code
        number = self._kept(result)
        ended = f"exit code {code}" if code else ""
        if self._lines and not self._verbose:
            self._fold(ended or "done", "yellow" if code else "green")
            return
        lines = result.shown.splitlines() or ["(nothing)"]
        limit = _PERSON_LINES if result.call.asker is Asker.PERSON else _RESULT_LINES
        limit = len(lines) if self._verbose else limit
        self._barred(lines if len(lines) <= limit + 1 else lines[:limit])
        if len(lines) > limit + 1:
            more = f"… {_count(len(lines) - limit, 'more line')} · /show {number}"
            self._fold(f"{ended} · {more}" if ended else more, "yellow" if ended else "dim")
        elif ended:
            self._fold(ended, "yellow")

    def _fold(self, text: str, style: str) -> None:
        self._screen.line(f"  └ {text}", style)

    def _barred(self, lines: list[str]) -> None:
        """Print lines that came in behind a bar, those of a diff with its colours."""
        if not is_diff("\n".join(lines)):
            self._screen.barred(lines, "dim")
            return
        self._screen.put(
            piece
            for line in diff_lines([line.expandtabs() for line in lines])
            for piece in folded(line, self._screen.width, "  │ ", "  │ ")
        )

    def _refused(self, result: ToolResult) -> None:
        self._unsuccessful(result)
        error = result.error or {}
        facts = error.get("facts")
        named = [(str(fact["name"]), str(fact["value"])) for fact in facts] if isinstance(facts, list) else []
        if isinstance(suggestion := error.get("suggestion"), str):
            named.append(("instead", suggestion))
        self._screen.barred((visible(f"{name}: {value}"[:_LONGEST_FAILURE]) for name, value in named), "dim")


def _title(call: ToolCall) -> str:
    return f"{visible(call.tool[:64])} {visible(call.arguments)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
