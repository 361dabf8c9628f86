"""Print a session to the terminal: the answer as it comes, calls in between, refusals in plain words.

What a model, a page or a program wrote is stripped of escape sequences before it is printed, and styled by us
only; results are printed behind a bar, so that no line of theirs begins where ours do. `screen.py` prints
lines, `approve.py` lays out a question.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.text import Text as Styled

from leeward.security.call import Asker, Status, ToolCall, ToolResult
from leeward.security.filters import Source, strip
from leeward.security.text import visible
from leeward.security.trust import Origin

from ..events import Alert, CallEnded, CallStarted, EndReason, LiveOutput, RunEvent, Text, TurnEnded
from .screen import Screen, within

__all__ = ["Renderer"]

_RESULT_LINES = 6
_LIVE_LINES = 200
_LONGEST_LIVE = 4000
_LONGEST_FAILURE = 300
_LIMITS = {
    EndReason.MAX_TURNS: "the model was not done after max_turns replies; say 'go on' to continue",
    EndReason.TIMEOUT: "the time of a turn ran out; say 'go on' to continue",
    EndReason.COST: "the session has cost what it may cost",
    EndReason.CONTEXT: "the conversation is too long for this model; /clear or /new begins another",
}
_MODEL = Source("model", Origin.MODEL)


class Renderer:
    """Prints the events of a session as they happen."""

    def __init__(self, screen: Screen, *, verbose: bool = False) -> None:
        self.screen = screen
        self._verbose = verbose
        self._answer = strip.start(_MODEL)
        self._ends_line = True
        self._partial = ""
        self._live = 0

    def __call__(self, event: RunEvent) -> None:
        """Print one event."""
        match event:
            case Text(text):
                self._write(self._answer.feed(text))
            case CallStarted(call):
                self._end_answer()
                self._live = 0
                self._call(call)
            case LiveOutput(text=text):
                self._output(text)
            case CallEnded(result):
                self._end_output()
                self._result(result)
            case Alert(message):
                self._end_answer()
                self._end_output()
                self.screen.line(f"! {visible(message)}", "bold yellow")
            case TurnEnded():
                self._end_answer()
                self._end_output()
                self._ended(event)

    def stopped(self) -> None:
        """Say that the person stopped a turn."""
        self._end_answer()
        self.screen.line("■ stopped; what was said so far is kept", "dim")

    def _write(self, text: str) -> None:
        if text:
            self.screen.write(text)
            self._ends_line = text.endswith("\n")

    def _end_answer(self) -> None:
        """Print what was held back of the answer, and begin a new line if it did not end one."""
        self._write(self._answer.flush())
        self._answer = strip.start(_MODEL)
        if not self._ends_line:
            self._write("\n")

    def _call(self, call: ToolCall) -> None:
        # A name that no tool has may be of any length, and is not worth more than a line.
        said = f"{visible(call.tool[:64])} {visible(call.arguments)}"
        room = max(self.screen.width - 2, 20)
        if not self._verbose and cell_len(said) > room:
            said = set_cell_size(said, room - 1) + "…"
        name, blank, arguments = said.partition(" ")
        self.screen.put(Styled.assemble(("● ", "cyan"), (name, "bold"), blank + arguments))

    def _output(self, text: str) -> None:
        """Show running output, whole lines only and up to a bound: the result tells the rest."""
        *lines, self._partial = (self._partial + text).split("\n")
        if len(self._partial) > _LONGEST_LIVE:
            lines, self._partial = [*lines, self._partial], ""
        room = max(_LIVE_LINES - self._live, 0)
        self.screen.barred(lines[:room], "dim")
        if self._live <= _LIVE_LINES < self._live + len(lines):
            self.screen.line("  │ … more output follows and is not shown here", "dim italic")
        self._live += len(lines)

    def _end_output(self) -> None:
        if self._partial:
            self._output("\n")

    def _result(self, result: ToolResult) -> None:
        match result.outcome.status:
            case Status.OK:
                self._succeeded(result)
            case Status.DENIED:
                self._refused(result)
            case _:
                self._unsuccessful(result)

    def _unsuccessful(self, result: ToolResult) -> None:
        said = visible(result.shown.strip().partition("\n")[0])
        if len(said) > _LONGEST_FAILURE and not self._verbose:
            said = f"{said[:_LONGEST_FAILURE]}…"
        for line in within(self.screen.width, "  ✗ ", said, "    ", by_words=True):
            self.screen.line(line, "red")

    def _succeeded(self, result: ToolResult) -> None:
        code = result.outcome.exit_code
        lines = result.shown.splitlines() or ["(nothing)"]
        if result.call.asker is Asker.PERSON:
            # What the person asked for is shown by whoever they asked.
            self.screen.line(f"  └ {_count(len(lines), 'line')}", "green")
        elif self._live and not self._verbose:
            ended, style = (f"exit code {code}", "yellow") if code else ("done", "green")
            self.screen.line(f"  └ {ended}", style)
        else:
            limit = len(lines) if self._verbose else _RESULT_LINES
            self.screen.barred(lines[:limit], "dim")
            if len(lines) > limit:
                self.screen.line(f"  └ … {_count(len(lines) - limit, 'more line')}", "dim")

    def _refused(self, result: ToolResult) -> None:
        self._unsuccessful(result)
        error = result.error or {}
        facts = error.get("facts")
        told = [(str(fact["name"]), str(fact["value"])) for fact in facts] if isinstance(facts, list) else []
        if isinstance(suggestion := error.get("suggestion"), str):
            told.append(("instead", suggestion))
        self.screen.barred((visible(f"{name}: {value}"[:_LONGEST_FAILURE]) for name, value in told), "dim")

    def _ended(self, event: TurnEnded) -> None:
        if event.error is not None:
            self.screen.failed(str(event.error))
        elif event.reason in _LIMITS:
            self.screen.line(f"! stopped: {_LIMITS[event.reason]}", "yellow")
        elif event.reason is EndReason.TIMEOUT:
            self.screen.line("! stopped: the time of this turn ran out; say 'go on' to continue", "yellow")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
